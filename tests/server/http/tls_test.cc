// SPDX-License-Identifier: Apache-2.0
// HTTP over TLS, with libcurl as the client.

#include <filesystem>

#include <curl/curl.h>

#include "tests/server/http/http_fixture.h"

namespace fettle {
namespace {

struct CurlAnswer {
  CURLcode code = CURLE_OK;
  long status = 0;
  std::string headers, body;
};

std::size_t Append(char* bytes, std::size_t size, std::size_t count, void* out) {
  static_cast<std::string*>(out)->append(bytes, size * count);
  return size * count;
}

CurlAnswer Fetch(const std::string& url, const std::string& ca, const std::string& body = "") {
  CurlAnswer answer;
  CURL* curl = curl_easy_init();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_CAINFO, ca.c_str());
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, Append);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer.headers);
  if (!body.empty()) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
  answer.code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  curl_easy_cleanup(curl);
  return answer;
}

TEST_F(HttpTest, SpeaksTlsWithACertificate) {
  const std::string certificate = folder_.str() + "/cert.pem";
  const std::string key = folder_.str() + "/key.pem";
  const std::string make =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
      "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout " +
      key + " -out " + certificate + " 2>/dev/null && chmod 600 " + key;
  ASSERT_EQ(std::system(make.c_str()), 0) << "openssl could not make a certificate";
  ServerOptions options = HttpOptions();
  options.tls_certificate_file = certificate;
  options.tls_key_file = key;
  StartHttp(std::move(options));
  EXPECT_EQ(server_->login_link().substr(0, 8), "https://");
  const std::string url = "https://localhost:" + std::to_string(port_);
  const CurlAnswer login =
      Fetch(url + "/api/v1/session", certificate, nlohmann::json{{"token", secret_}}.dump());
  EXPECT_EQ(login.code, CURLE_OK) << curl_easy_strerror(login.code);
  EXPECT_EQ(login.status, 200) << login.body;
  EXPECT_NE(login.headers.find("; Secure"), std::string::npos) << login.headers;
  EXPECT_EQ(Fetch(url + "/api/v1/jobs", certificate).status, 401);
  // Plain HTTP gets nothing.
  EXPECT_NE(Fetch("http://localhost:" + std::to_string(port_) + "/", certificate).code, CURLE_OK);
  EXPECT_NE(Fetch(url + "/", "/dev/null").code, CURLE_OK);
  ServerOptions half = HttpOptions();
  half.data_dir = folder_.str() + "/half";
  half.tls_certificate_file = certificate;
  EXPECT_EQ(Server::Start(std::move(half)).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fettle
