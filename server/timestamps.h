// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <google/protobuf/timestamp.pb.h>

namespace fettle {

inline google::protobuf::Timestamp TimestampFromNs(std::int64_t ns) {
  google::protobuf::Timestamp out;
  out.set_seconds(ns / 1'000'000'000);
  out.set_nanos(static_cast<std::int32_t>(ns % 1'000'000'000));
  return out;
}

}  // namespace fettle
