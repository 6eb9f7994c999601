// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fettle {

// Where a command writes. Results go to `out`, progress and errors to `err`, so that results can be
// piped. Not thread-safe.
class Terminal {
 public:
  using Sink = std::function<void(std::string_view)>;
  struct Options {
    bool is_terminal = false;  // A status line may be redrawn on `err`.
    int width = 80;            // Columns of `err`, and of tables and folded lines.
    bool color = false;
  };
  Terminal(Sink out, Sink err, Options options);
  // stdout and stderr of this process. As wide as COLUMNS says and the terminal is, else 80.
  static Terminal Standard();
  // errno of a write to this process's standard output that failed though somebody reads it; 0:
  // none.
  static int OutputError();

  void Print(std::string_view text);        // Text plus a line end, on out.
  void Note(std::string_view text);         // Text plus a line end, on err; keeps the status line.
  void PrintFolded(std::string_view text);  // As Print, in lines that fit (Folded).
  void Raw(std::string_view bytes);         // Bytes as they are, on out.
  // Replaces the line at the bottom; nothing where there is no terminal. Empty: removes it.
  void Status(std::string_view text);

  bool is_terminal() const { return options_.is_terminal; }
  int width() const { return options_.width; }
  std::string Bold(std::string_view text) const;

 private:
  Sink out_, err_;
  Options options_;
  std::string status_;
};

// Columns that `text` (UTF-8) takes, counting one per code point.
int DisplayWidth(std::string_view text);
// `text` cut to `width` columns, the last one an ellipsis where something is missing.
std::string Fit(std::string_view text, int width);
// `text` with each line that is longer than `width` columns broken at spaces; what follows is
// indented by four columns more than the line. A longer word stays whole, so that it can be copied.
std::string Folded(std::string_view text, int width);
// Untrusted text made safe for a terminal: control characters other than newline and tab become
// their \x.. form, invalid UTF-8 a question mark.
std::string Printable(std::string_view text);

// Rows under a header, each column as wide as its widest cell; columns shrink from the widest until
// the table fits.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;  // Numbers.
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Lines with ends.
  std::string Render(int width) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "[#####.....]" of `width` columns in all; `fraction` is clamped to 0..1.
std::string Bar(double fraction, int width);

}  // namespace fettle
