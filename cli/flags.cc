// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <utility>

namespace fettle {

FlagSet::Item& FlagSet::Flag(std::string name, std::string metavar, Destination destination,
                             std::string help) {
  items_.push_back({.name = std::move(name),
                    .metavar = std::move(metavar),
                    .help = std::move(help),
                    .destination = destination,
                    .choices = {},
                    .alias = {}});
  return items_.back();
}

FlagSet::Item& FlagSet::Positional(std::string metavar, Destination destination, std::string help) {
  items_.push_back({.name = metavar,
                    .metavar = metavar,
                    .help = std::move(help),
                    .destination = destination,
                    .positional = true,
                    .required = true,
                    .choices = {},
                    .alias = {}});
  return items_.back();
}

}  // namespace fettle
