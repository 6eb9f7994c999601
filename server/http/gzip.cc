// SPDX-License-Identifier: Apache-2.0
#include "server/http/gzip.h"

#include <zlib.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr int kLevel = 4;
constexpr int kWindowBits = 15 + 16;  // 16: with gzip's header and checksum.
constexpr int kMemory = 8;

}  // namespace

std::string Gzip(std::string_view bytes) {
  z_stream stream{};
  FETTLE_CHECK(
      deflateInit2(&stream, kLevel, Z_DEFLATED, kWindowBits, kMemory, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  FETTLE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace fettle
