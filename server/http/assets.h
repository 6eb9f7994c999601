// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace fettle {

// The dashboard's files, built into the program and compressed there (web/CMakeLists.txt).
class Assets {
 public:
  // From a pack: one line of JSON {"files": [{path, type, offset, size, etag, immutable}]}, then
  // the gzip bytes of all files. An empty pack holds nothing.
  explicit Assets(std::string_view pack);

  // The answer to a GET of `request`: a file, or index.html for a page's address; nothing for a
  // missing file.
  std::optional<HttpResponse> Serve(const HttpRequest& request) const;
  bool empty() const { return files_.empty(); }

 private:
  struct File {
    std::string type, etag;
    std::string_view gzip;
    bool immutable = false;
  };
  std::map<std::string, File, std::less<>> files_;
};

// The pack of this program; empty where it was built without the dashboard.
std::string_view DashboardPack();

}  // namespace fettle
