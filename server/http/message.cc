// SPDX-License-Identifier: Apache-2.0
#include "server/http/message.h"

namespace fettle {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Calls `take` with each element of a header's comma-separated list.
template <typename Take>
void EachListed(std::string_view list, Take take) {
  while (!list.empty()) {
    const auto end = list.find(',');
    if (const std::string_view one = Trimmed(list.substr(0, end)); !one.empty()) take(one);
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
}

const std::string& Empty() {
  static const std::string empty;
  return empty;
}

}  // namespace

const std::string& HttpRequest::Header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? Empty() : found->second;
}

const std::string& HttpRequest::Query(std::string_view key) const {
  for (const auto& [name, value] : query) {
    if (name == key) return value;
  }
  return Empty();
}

bool HttpRequest::AcceptsGzip() const {
  bool accepts = false;
  bool named = false;
  EachListed(Header("accept-encoding"), [&](std::string_view one) {
    const auto semicolon = one.find(';');
    const std::string_view coding = Trimmed(one.substr(0, semicolon));
    if (coding != "gzip" && (coding != "*" || named)) return;
    named = named || coding == "gzip";
    const std::string_view weight =
        semicolon == std::string_view::npos ? "" : Trimmed(one.substr(semicolon + 1));
    // "q=0" and "q=0.000" refuse it.
    accepts = !weight.starts_with("q=0") ||
              weight.find_first_of("123456789", 3) != std::string_view::npos;
  });
  return accepts;
}

bool HttpRequest::HasEtag(std::string_view etag) const {
  const auto strong = [](std::string_view tag) {
    return tag.starts_with("W/") ? tag.substr(2) : tag;
  };
  bool has = false;
  EachListed(Header("if-none-match"),
             [&](std::string_view one) { has = has || one == "*" || strong(one) == strong(etag); });
  return has;
}

bool PercentDecode(std::string_view text, bool plus_is_space, std::string& out) {
  out.clear();
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (i + 2 >= text.size()) return false;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return false;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return true;
}

bool ParseTarget(std::string_view target, HttpRequest& request) {
  if (target.empty() || target.front() != '/') return false;
  const auto mark = target.find('?');
  if (!PercentDecode(target.substr(0, mark), /*plus_is_space=*/false, request.path)) return false;
  if (request.path.find('\0') != std::string::npos) return false;
  if (mark == std::string_view::npos) return true;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    std::pair<std::string, std::string> entry;
    if (!PercentDecode(pair.substr(0, equals), /*plus_is_space=*/true, entry.first)) return false;
    if (equals != std::string_view::npos &&
        !PercentDecode(pair.substr(equals + 1), /*plus_is_space=*/true, entry.second)) {
      return false;
    }
    request.query.push_back(std::move(entry));
  }
  return true;
}

std::string CookieValue(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const auto end = header.find(';');
    std::string_view pair = header.substr(0, end);
    header = end == std::string_view::npos ? std::string_view() : header.substr(end + 1);
    while (!pair.empty() && pair.front() == ' ') pair.remove_prefix(1);
    const auto equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      return std::string(pair.substr(equals + 1));
    }
  }
  return "";
}

}  // namespace fettle
