// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"

namespace fettle {
namespace {

struct Described {
  std::string name, summary;
  FlagSet flags;
};

std::string ReplaceAll(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Text inside single quotes for a shell.
std::string Quoted(const std::string& text) { return ReplaceAll(text, "'", "'\\''"); }

std::string Join(const std::vector<std::string>& words, const char* separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

bool IsSwitch(const FlagSet::Item& item) { return std::holds_alternative<bool*>(item.destination); }

// bash: one function; a case per command for its flags, a case per flag for its values.
std::string Bash(const std::vector<Described>& commands) {
  std::vector<std::string> names;
  std::string flags, values, positionals;
  for (const Described& command : commands) {
    names.push_back(command.name);
    std::vector<std::string> own;
    for (const FlagSet::Item& item : command.flags.items()) {
      std::string action;
      if (!item.choices.empty()) {
        action =
            fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", Join(item.choices, " "));
      } else if (item.completes == Completes::kFile) {
        action = "COMPREPLY=($(compgen -f -- \"$word\"))";
      } else if (item.completes == Completes::kFolder) {
        action = "COMPREPLY=($(compgen -d -- \"$word\"))";
      }
      if (item.positional) {
        if (!action.empty()) {
          positionals += fmt::format("    {}) {} ;;\n", command.name, action);
        }
        continue;
      }
      own.push_back(item.name);
      if (!IsSwitch(item)) {
        values += fmt::format("    {}:{}) {}; return ;;\n", command.name, item.name,
                              action.empty() ? ":" : action);
      }
    }
    own.push_back("--help");
    flags += fmt::format("    {}) flags='{}' ;;\n", command.name, Join(own, " "));
  }
  return fmt::format(R"(# bash completion for fettle: source <(fettle completion bash)
_fettle() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" flags=''
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W '{} --help' -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}:$before" in
{}  esac
  case "${{COMP_WORDS[1]}}" in
{}  esac
  if [ "${{word#-}}" != "$word" ]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
}}
complete -o filenames -F _fettle fettle
)",
                     Join(names, " "), values, flags, positionals);
}

std::string ZshValue(const FlagSet::Item& item) {
  const std::string label = ReplaceAll(item.metavar, ":", "\\:");
  if (!item.choices.empty()) return fmt::format(":{}:({})", label, Join(item.choices, " "));
  if (item.completes == Completes::kFile) return fmt::format(":{}:_files", label);
  if (item.completes == Completes::kFolder) return fmt::format(":{}:_files -/", label);
  return fmt::format(":{}:", label);
}

std::string Zsh(const std::vector<Described>& commands) {
  std::string list, cases;
  for (const Described& command : commands) {
    list +=
        fmt::format("    '{}:{}'\n", command.name, Quoted(ReplaceAll(command.summary, ":", " -")));
    cases += fmt::format("    {}) _arguments", command.name);
    for (const FlagSet::Item& item : command.flags.items()) {
      std::string help = ReplaceAll(ReplaceAll(item.help, "[", "\\["), "]", "\\]");
      help = Quoted(ReplaceAll(help, ":", "\\:"));
      const bool many = std::holds_alternative<std::vector<std::string>*>(item.destination);
      if (item.positional) {
        cases += fmt::format(" \\\n      '{}{}'", many ? "*" : "", Quoted(ZshValue(item)));
      } else {
        cases += fmt::format(" \\\n      '{}{}[{}]{}'", many ? "*" : "", item.name, help,
                             IsSwitch(item) ? "" : Quoted(ZshValue(item)));
      }
    }
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef fettle
# zsh completion for fettle: fettle completion zsh >"${{fpath[1]}}/_fettle"
_fettle() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command="$words[2]"
  shift words
  (( CURRENT-- ))
  case "$command" in
{}  esac
}}
if [ "$funcstack[1]" = _fettle ]; then _fettle "$@"; else compdef _fettle fettle; fi
)",
                     list, cases);
}

std::string FishQuoted(const std::string& text) {
  return ReplaceAll(ReplaceAll(text, "\\", "\\\\"), "'", "\\'");
}

std::string Fish(const std::vector<Described>& commands) {
  std::string text =
      "# fish completion for fettle: fettle completion fish | source\n"
      "complete -c fettle -f\n";
  for (const Described& command : commands) {
    text += fmt::format("complete -c fettle -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                        FishQuoted(command.summary));
    for (const FlagSet::Item& item : command.flags.items()) {
      std::string line =
          fmt::format("complete -c fettle -n '__fish_seen_subcommand_from {}'", command.name);
      if (item.positional) {
        if (!item.choices.empty()) {
          line += fmt::format(" -a '{}'", Join(item.choices, " "));
        } else if (item.completes != Completes::kNothing) {
          line += " -F";
        } else {
          continue;
        }
      } else {
        line += fmt::format(" -l {} -d '{}'", item.name.substr(2), FishQuoted(item.help));
        if (!item.choices.empty()) {
          line += fmt::format(" -x -a '{}'", Join(item.choices, " "));
        } else if (!IsSwitch(item)) {
          line += item.completes == Completes::kNothing ? " -x" : " -r -F";
        }
      }
      text += line + "\n";
    }
  }
  return text;
}

class CompletionCommand final : public Subcommand {
 public:
  std::string name() const override { return "completion"; }
  std::string summary() const override { return "print the completion script of a shell"; }
  std::string details() const override {
    return "bash: add  source <(fettle completion bash)  to ~/.bashrc";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("SHELL", &shell_, "bash, zsh or fish").choices = {"bash", "zsh", "fish"};
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    std::vector<Described> commands;
    for (const auto& subcommand : context.subcommands) {
      commands.push_back({subcommand->name(), subcommand->summary(), {}});
      subcommand->Declare(commands.back().flags);
    }
    context.terminal.Raw(shell_ == "bash"  ? Bash(commands)
                         : shell_ == "zsh" ? Zsh(commands)
                                           : Fish(commands));
    return ExitCode::kOk;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeCompletionCommand() {
  return std::make_unique<CompletionCommand>();
}

}  // namespace fettle
