// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace fettle {

// What a value completes to in a shell.
enum class Completes { kNothing, kFile, kFolder };

// The flags and positional arguments of one subcommand, each bound to a variable that outlives the
// parse. A description only: parsing (parse.h) and shell completion (completion.cc) both read it.
class FlagSet {
 public:
  using Destination =
      std::variant<bool*, std::string*, std::int64_t*, double*, std::vector<std::string>*>;
  struct Item {
    std::string name;     // "--json", or the metavariable of a positional argument.
    std::string metavar;  // "N", "FILE"; empty for switches.
    std::string help;
    Destination destination;
    bool positional = false;
    bool required = false;
    Completes completes = Completes::kNothing;
    std::vector<std::string> choices;  // Empty: anything.
    std::string alias;                 // A second name that is understood.

    Item& Alias(std::string other) {
      alias = std::move(other);
      return *this;
    }
  };

  // A switch, or a flag with a value (a vector takes the flag any number of times).
  Item& Flag(std::string name, std::string metavar, Destination destination, std::string help);
  // A vector takes one or more.
  Item& Positional(std::string metavar, Destination destination, std::string help);
  const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
};

}  // namespace fettle
