// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/text.h"

namespace fettle {
namespace {

constexpr int kLeastColumns = 40;

int output_error = 0;  // errno of the last write to standard output that failed.

void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      // A closed pipe: nobody is reading. Anything else has lost what was asked for.
      if (fd == STDOUT_FILENO && errno != EPIPE) output_error = errno;
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Of the environment, as other programs take it; 0: it says nothing.
int ColumnsAsked() {
  const char* text = std::getenv("COLUMNS");
  if (text == nullptr) return 0;
  const std::string_view digits(text);
  int columns = 0;
  const auto [end, error] = std::from_chars(text, text + digits.size(), columns);
  return error == std::errc() && end == text + digits.size() && columns > 0 ? columns : 0;
}

// One line of Folded.
void FoldLine(std::string_view line, int width, std::string& out) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  std::string lead(line.substr(0, indent));
  line.remove_prefix(indent);
  line = line.substr(0, line.find_last_not_of(' ') + 1);
  for (int left = DisplayWidth(line); static_cast<int>(lead.size()) + left > width;) {
    // The last space that fits, else the first.
    std::size_t cut = std::string_view::npos;
    int columns = static_cast<int>(lead.size());
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == ' ' && (columns <= width || cut == std::string_view::npos)) cut = i;
      if (columns > width && cut != std::string_view::npos) break;
      columns += DisplayWidth(line.substr(i, 1));
    }
    if (cut == std::string_view::npos) break;
    out += fmt::format("{}{}\n", lead, line.substr(0, cut));
    const std::size_t next = std::min(line.find_first_not_of(' ', cut), line.size());
    left -= DisplayWidth(line.substr(0, next));
    line.remove_prefix(next);
    lead = std::string(indent + 4, ' ');
  }
  out += lead;
  out += line;
}

}  // namespace

Terminal::Terminal(Sink out, Sink err, Options options)
    : out_(std::move(out)), err_(std::move(err)), options_(options) {}

Terminal Terminal::Standard() {
  Options options;
  const char* term = std::getenv("TERM");
  options.is_terminal =
      ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
  int columns = ColumnsAsked();
  winsize size{};
  if ((::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ||
       ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) &&
      size.ws_col > 0) {
    // A status line that wraps cannot be redrawn.
    columns = columns > 0 ? std::min<int>(columns, size.ws_col) : size.ws_col;
  }
  if (columns > 0) options.width = std::max(columns, kLeastColumns);
  options.color =
      options.is_terminal && ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  return Terminal([](std::string_view text) { WriteAll(STDOUT_FILENO, text); },
                  [](std::string_view text) { WriteAll(STDERR_FILENO, text); }, options);
}

int Terminal::OutputError() { return output_error; }

void Terminal::Print(std::string_view text) {
  const std::string status = status_;
  Status("");
  out_(std::string(text) + "\n");
  Status(status);
}

void Terminal::PrintFolded(std::string_view text) { Print(Folded(text, options_.width)); }

void Terminal::Note(std::string_view text) {
  const std::string status = status_;
  Status("");
  err_(std::string(text) + "\n");
  Status(status);
}

void Terminal::Raw(std::string_view bytes) { out_(bytes); }

void Terminal::Status(std::string_view text) {
  if (!options_.is_terminal || text == status_) return;
  status_ = std::string(text);
  err_(fmt::format("\r\x1b[K{}", Fit(text, options_.width - 1)));
}

std::string Terminal::Bold(std::string_view text) const {
  return options_.color ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

int DisplayWidth(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string Fit(std::string_view text, int width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width < 1) return "";
  std::size_t end = 0;
  for (int columns = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) continue;
    if (columns++ == width - 1) break;
  }
  return std::string(text.substr(0, end)) + "\u2026";
}

std::string Folded(std::string_view text, int width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    FoldLine(text.substr(0, end), width, out);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string Printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = Utf8SequenceLength(text);
    const unsigned char first = static_cast<unsigned char>(text[0]);
    const bool c1_control =
        length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (length == 0) {
      result += '?';
    } else if ((first < 0x20 && first != '\n' && first != '\t') || first == 0x7F) {
      result += fmt::format("\\x{:02x}", first);
    } else if (c1_control) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[1]));
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string Table::Render(int width) const {
  std::vector<int> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    int widest = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, DisplayWidth(row[c]));
    widths.push_back(widest);
  }
  const auto total = [&] {
    int sum = 2 * (static_cast<int>(widths.size()) - 1);
    for (const int w : widths) sum += w;
    return sum;
  };
  while (total() > width) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= 8) break;
    --*widest;
  }
  std::string text;
  const auto line = [&](auto cell) {
    std::string row;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) row += "  ";
      const std::string shown = Fit(cell(c), widths[c]);
      const std::string pad(static_cast<std::size_t>(widths[c] - DisplayWidth(shown)), ' ');
      row += columns_[c].right ? pad + shown : shown + pad;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  };
  line([&](std::size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) {
    line([&](std::size_t c) { return row[c]; });
  }
  return text;
}

std::string Bar(double fraction, int width) {
  const int inner = std::max(width - 2, 0);
  const int filled =
      static_cast<int>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(inner) + 0.5);
  return fmt::format("[{}{}]", std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(inner - filled), '.'));
}

}  // namespace fettle
