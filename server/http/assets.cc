// SPDX-License-Identifier: Apache-2.0
#include "server/http/assets.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr char kIndex[] = "/index.html";
constexpr int kWindowBits = 15 + 16;

// For the rare client that takes no gzip.
std::string Gunzip(std::string_view bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, kWindowBits) != Z_OK) return "";
  std::string out;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int result = Z_OK;
  while (result == Z_OK) {
    char buffer[16384];
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  inflateEnd(&stream);
  return out;
}

// Whether an address names a page of the application rather than a file.
bool IsPage(std::string_view path) {
  const auto slash = path.rfind('/');
  return path.substr(slash + 1).find('.') == std::string_view::npos &&
         path.substr(0, 8) != "/assets/";
}

}  // namespace

Assets::Assets(std::string_view pack) {
  const auto line = pack.find('\n');
  if (line == std::string_view::npos) return;
  const Json index = Json::parse(pack.substr(0, line), nullptr, /*allow_exceptions=*/false);
  if (!index.is_object()) return;
  const std::string_view bytes = pack.substr(line + 1);
  for (const Json& entry : index.value("files", Json::array())) {
    File file;
    file.type = entry.value("type", "application/octet-stream");
    file.etag = entry.value("etag", "");
    file.immutable = entry.value("immutable", false);
    file.gzip =
        bytes.substr(entry.value("offset", std::size_t{0}), entry.value("size", std::size_t{0}));
    files_[entry.value("path", "")] = std::move(file);
  }
}

std::optional<HttpResponse> Assets::Serve(const HttpRequest& request) const {
  auto found = files_.find(request.path);
  if (found == files_.end() && IsPage(request.path)) found = files_.find(std::string_view(kIndex));
  if (found == files_.end()) return std::nullopt;
  const File& file = found->second;
  HttpResponse response;
  response.content_type = file.type;
  response.headers = {
      {"ETag", file.etag},
      {"Vary", "Accept-Encoding"},
      {"Cache-Control", file.immutable ? "public, max-age=31536000, immutable" : "no-cache"}};
  if (request.HasEtag(file.etag)) {
    response.status = 304;
    response.content_type.clear();
    return response;
  }
  if (request.AcceptsGzip()) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = std::string(file.gzip);
  } else {
    response.body = Gunzip(file.gzip);
  }
  return response;
}

}  // namespace fettle
