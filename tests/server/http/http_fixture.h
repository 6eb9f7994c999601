// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tests/fakes/raw_http.h"
#include "tests/server/server_fixture.h"

namespace fettle {

// A server with its HTTP side on a port of its own.
class HttpTest : public ServerTest {
 protected:
  ServerOptions HttpOptions() {
    ServerOptions options = Options();
    options.http = "127.0.0.1:0";
    return options;
  }
  void StartHttp() { StartHttp(HttpOptions()); }
  void StartHttp(ServerOptions options) {
    StartServer(std::move(options));
    const std::string link = server_->login_link();
    secret_ = link.substr(link.find('#') + 1);
    const auto begin = link.find(':', 8) + 1;
    port_ = std::stoi(link.substr(begin, link.find('/', begin) - begin));
  }

  // Logs in and keeps the cookie and the token for writes.
  RawResponse LogIn(const std::string& secret) {
    const RawResponse response =
        RawRequest(port_, "POST", "/api/v1/session", {}, nlohmann::json{{"token", secret}}.dump());
    const std::string cookie = response.Header("set-cookie");
    cookie_ = cookie.substr(0, cookie.find(';'));
    if (response.status == 200) csrf_ = nlohmann::json::parse(response.body)["csrf"];
    return response;
  }
  void LogIn() { ASSERT_EQ(LogIn(secret_).status, 200); }

  RawResponse Get(const std::string& target, RawHeaders more = {}) {
    more.emplace_back("Cookie", cookie_);
    return RawRequest(port_, "GET", target, more);
  }
  RawResponse Post(const std::string& target, const std::string& body = "", RawHeaders more = {}) {
    more.emplace_back("Cookie", cookie_);
    more.emplace_back("X-Fettle-CSRF", csrf_);
    return RawRequest(port_, "POST", target, more, body);
  }
  nlohmann::json GetJson(const std::string& target) {
    const RawResponse response = Get(target);
    EXPECT_EQ(response.status, 200) << target << " " << response.body;
    return nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  }
  // A stream whose head has been read.
  RawConnection OpenStream(const std::string& target, const std::string& last_event_id = "") {
    RawConnection connection(port_);
    connection.Send("GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) +
                    "\r\nCookie: " + cookie_ + "\r\n" +
                    (last_event_id.empty() ? "" : "Last-Event-ID: " + last_event_id + "\r\n") +
                    "\r\n");
    const RawResponse head = connection.Head();
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.Header("content-type"), "text/event-stream");
    return connection;
  }
  static std::string CodeOf(const RawResponse& response) {
    const auto json = nlohmann::json::parse(response.body, nullptr, false);
    return json.is_object() && json.contains("error") ? json["error"]["code"].get<std::string>()
                                                      : "";
  }
  std::string Token(const std::string& name) {
    return ReadWholeFile(folder_.str() + "/data/" + name + ".token").value().substr(0, 48);
  }
  // A job that has ended with variants.
  std::string FinishedJob() {
    StartWorker(HonestAnswer);
    const std::string id = Submit(Request("finished")).id();
    Watch(id);
    return id;
  }

  int port_ = 0;
  std::string secret_, cookie_, csrf_;
};

}  // namespace fettle
