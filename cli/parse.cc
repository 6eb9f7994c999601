// SPDX-License-Identifier: Apache-2.0
#include "cli/parse.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace fettle {
namespace {

constexpr std::size_t kHelpColumns = 80;
constexpr std::size_t kNameColumns = 34;

// Lines of at most `columns`, broken between words; a longer word stands alone.
std::string Wrapped(const std::string& text, std::size_t columns) {
  std::string out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::size_t cut = end;
    if (end - begin > columns) {
      cut = text.rfind(' ', begin + columns);
      if (cut == std::string::npos || cut <= begin) cut = std::min(text.find(' ', begin), end);
    }
    out.append(text, begin, cut - begin);
    begin = cut + 1;
    if (cut < text.size()) out += '\n';
  }
  return out;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kNameColumns); }
  std::string make_option_desc(const CLI::Option* option) const override {
    return Wrapped(CLI::Formatter::make_option_desc(option), kHelpColumns - kNameColumns);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::stringstream out;
    CLI::detail::format_help(out, command->get_name(),
                             Wrapped(command->get_description(), kHelpColumns - kNameColumns),
                             kNameColumns);
    return out.str();
  }
  std::string make_description(const CLI::App* app) const override {
    return Wrapped(CLI::Formatter::make_description(app), kHelpColumns);
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? "" : Wrapped(footer, kHelpColumns) + "\n";
  }
};

CLI::Option* AddItem(CLI::App& app, const FlagSet::Item& item) {
  const std::string name = item.alias.empty() ? item.name : item.alias + "," + item.name;
  CLI::Option* option = nullptr;
  if (bool* const* flag = std::get_if<bool*>(&item.destination)) {
    return app.add_flag(name, **flag, item.help);
  }
  if (auto* const* text = std::get_if<std::string*>(&item.destination)) {
    option = app.add_option(name, **text, item.help);
  } else if (auto* const* integer = std::get_if<std::int64_t*>(&item.destination)) {
    option = app.add_option(name, **integer, item.help);
  } else if (auto* const* real = std::get_if<double*>(&item.destination)) {
    option = app.add_option(name, **real, item.help);
  } else {
    option =
        app.add_option(name, *std::get<std::vector<std::string>*>(item.destination), item.help);
    if (!item.positional) option->allow_extra_args(false);
  }
  option->option_text(item.positional ? "" : item.metavar);
  if (item.required) option->required();
  if (!item.choices.empty()) option->check(CLI::IsMember(item.choices));
  return option;
}

// `fettle help COMMAND` is `fettle COMMAND --help`.
std::vector<std::string> WithoutHelpCommand(const std::vector<std::string>& typed) {
  if (typed.empty() || typed[0] != "help") return typed;
  if (typed.size() == 1) return {"--help"};
  return {typed[1], "--help"};
}

// CLI11's own message, in this project's form.
std::string Complaint(const CLI::ParseError& error, const std::string& command) {
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  const auto upper = [&](std::size_t i) {
    return i < message.size() && std::isupper(static_cast<unsigned char>(message[i])) != 0;
  };
  if (upper(0) && !upper(1)) {  // A sentence, not a metavariable.
    message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
  }
  while (!message.empty() && message.back() == ' ') message.pop_back();
  return fmt::format("{}; see fettle {}--help", message, command.empty() ? "" : command + " ");
}

}  // namespace

absl::StatusOr<ParsedCommand> ParseCommandLine(
    const std::vector<std::unique_ptr<Subcommand>>& subcommands,
    const std::vector<std::string>& typed) {
  const std::vector<std::string> arguments = WithoutHelpCommand(typed);
  CLI::App app("fettle: optimizes GPU kernels, and keeps what it can prove right and faster",
               "fettle");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());  // Subcommands inherit it.
  std::vector<CLI::App*> apps;
  for (const auto& subcommand : subcommands) {
    CLI::App* child = app.add_subcommand(subcommand->name(), subcommand->summary());
    FlagSet flags;
    subcommand->Declare(flags);
    for (const FlagSet::Item& item : flags.items()) AddItem(*child, item);
    if (const std::string details = subcommand->details(); !details.empty()) child->footer(details);
    apps.push_back(child);
  }
  const auto known = [&](const std::string& name) {
    return std::any_of(subcommands.begin(), subcommands.end(),
                       [&](const auto& subcommand) { return subcommand->name() == name; });
  };
  const std::string command = arguments.empty() ? "" : arguments.front();
  if (!command.empty() && command[0] != '-' && !known(command)) {
    return absl::InvalidArgumentError(
        fmt::format("no command named {}; see fettle --help", command));
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    CLI::App* shown = &app;
    for (CLI::App* child : apps) {
      if (child->parsed()) shown = child;
    }
    return ParsedCommand{.text = shown->help(shown == &app ? "" : "fettle")};
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(Complaint(error, known(command) ? command : ""));
  }
  for (std::size_t i = 0; i < apps.size(); ++i) {
    if (apps[i]->parsed()) return ParsedCommand{.subcommand = subcommands[i].get(), .text = ""};
  }
  return absl::InvalidArgumentError("no command given; see fettle --help");
}

}  // namespace fettle
