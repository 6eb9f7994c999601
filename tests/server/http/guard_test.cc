// SPDX-License-Identifier: Apache-2.0
// Who may reach what over HTTP.

#include <filesystem>

#include "tests/server/http/http_fixture.h"

namespace fettle {
namespace {

TEST_F(HttpTest, TheLoginLinkOpensASession) {
  StartHttp();
  const RawResponse response = LogIn(secret_);
  ASSERT_EQ(response.status, 200) << response.body;
  const std::string cookie = response.Header("set-cookie");
  EXPECT_NE(cookie.find("HttpOnly"), std::string::npos) << cookie;
  EXPECT_NE(cookie.find("SameSite=Strict"), std::string::npos) << cookie;
  EXPECT_EQ(cookie.find(secret_), std::string::npos);
  const auto session = GetJson("/api/v1/session");
  EXPECT_EQ(session["role"], "operate");
  EXPECT_EQ(session["csrf"], csrf_);
}

TEST_F(HttpTest, OtherSecretsOpenNothing) {
  StartHttp();
  for (const std::string& secret :
       {std::string(), std::string("wrong"), secret_.substr(1), secret_ + "0", Token("worker")}) {
    const RawResponse response = LogIn(secret);
    EXPECT_EQ(response.status, 401) << secret;
    EXPECT_EQ(CodeOf(response), "UNAUTHENTICATED");
  }
  EXPECT_EQ(RawRequest(port_, "POST", "/api/v1/session", {}, "[]").status, 400);
}

TEST_F(HttpTest, EveryCallNeedsASession) {
  StartHttp();
  LogIn();
  const auto paths = GetJson("/api/v1/openapi.json")["paths"];
  int tried = 0;
  for (const auto& [path, methods] : paths.items()) {
    for (const auto& [method, operation] : methods.items()) {
      if (path == "/api/v1/session" && method == "post") continue;
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(c - 'a' + 'A');
      for (const RawHeaders& headers :
           {RawHeaders{}, RawHeaders{{"Cookie", cookie_ + "x"}},
            RawHeaders{{"Authorization", "Bearer 1234"}},
            RawHeaders{{"Authorization", secret_}, {"Cookie", cookie_}}}) {
        const RawResponse response = RawRequest(port_, upper, path, headers);
        EXPECT_EQ(response.status, 401) << upper << " " << path;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 60);
}

TEST_F(HttpTest, WritesNeedTheTokenOfThePage) {
  StartHttp();
  LogIn();
  const std::string path = "/api/v1/jobs/unknown/cancel";
  const RawHeaders cookie = {{"Cookie", cookie_}};
  EXPECT_EQ(RawRequest(port_, "POST", path, cookie).status, 403);
  EXPECT_EQ(RawRequest(port_, "POST", path, {{"Cookie", cookie_}, {"X-Fettle-CSRF", "1"}}).status,
            403);
  EXPECT_EQ(RawRequest(port_, "DELETE", "/api/v1/session", cookie).status, 403);
  EXPECT_EQ(Post(path).status, 404);
  // A program's token cannot be sent by a foreign page.
  EXPECT_EQ(
      RawRequest(port_, "POST", path, {{"Authorization", "Bearer " + Token("operate")}}).status,
      404);
}

TEST_F(HttpTest, RolesAreThoseOfTheTokens) {
  const std::string data = folder_.str() + "/data";
  std::filesystem::create_directories(data);
  ASSERT_TRUE(WriteFileDurably(data + "/tokens.json",
                               R"({"tokens": [{"name": "eve", "role": "read", "token": "1"},
                                   {"name": "bob", "role": "propose", "token": "2"}]})")
                  .ok());
  StartHttp();
  for (const std::string token : {"1", "2"}) {
    ASSERT_EQ(LogIn(token).status, 200);
    EXPECT_EQ(Get("/api/v1/jobs").status, 200);
    const RawResponse refused = Post("/api/v1/jobs/x/cancel");
    EXPECT_EQ(refused.status, 403);
    EXPECT_NE(refused.body.find("needs operate"), std::string::npos) << refused.body;
  }
}

TEST_F(HttpTest, AnswersOnlyToItsOwnNames) {
  StartHttp();
  LogIn();
  const std::string port = std::to_string(port_);
  for (const std::string& good : {"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port}) {
    EXPECT_EQ(Get("/api/v1/jobs", {{"Host", good}}).status, 200) << good;
  }
  for (const std::string& bad :
       {std::string("evil.example"), "evil.example:" + port, std::string("127.0.0.1"),
        std::string("127.0.0.1:1"), std::string()}) {
    EXPECT_EQ(Get("/api/v1/jobs", {{"Host", bad}}).status, 403) << bad;
    EXPECT_EQ(Get("/", {{"Host", bad}}).status, 403) << bad;
  }
}

TEST_F(HttpTest, ForeignPagesReachNothing) {
  StartHttp();
  LogIn();
  const std::string own = "http://127.0.0.1:" + std::to_string(port_);
  EXPECT_EQ(Get("/api/v1/jobs", {{"Origin", own}}).status, 200);
  for (const std::string& bad : {std::string("http://evil.example"), std::string("null"),
                                 "https://127.0.0.1:" + std::to_string(port_)}) {
    EXPECT_EQ(Get("/api/v1/jobs", {{"Origin", bad}}).status, 403) << bad;
    EXPECT_EQ(Post("/api/v1/jobs/x/cancel", "", {{"Origin", bad}}).status, 403) << bad;
  }
  EXPECT_EQ(Get("/api/v1/jobs", {{"Sec-Fetch-Site", "cross-site"}}).status, 403);
  EXPECT_EQ(Get("/api/v1/jobs/stream", {{"Sec-Fetch-Site", "cross-site"}}).status, 403);
  // Following a link to a page is fine.
  EXPECT_EQ(Get("/jobs", {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}}).status,
            200);
  EXPECT_EQ(Get("/api/v1/jobs").Header("access-control-allow-origin"), "");
}

TEST_F(HttpTest, SessionsOutliveARestartAndEndWhenTold) {
  StartHttp();
  LogIn();
  const std::string old_secret = secret_;
  server_.reset();
  StartHttp();
  EXPECT_NE(secret_, old_secret);
  EXPECT_EQ(Get("/api/v1/jobs").status, 200);
  const RawResponse ended = RawRequest(port_, "DELETE", "/api/v1/session",
                                       {{"Cookie", cookie_}, {"X-Fettle-CSRF", csrf_}});
  EXPECT_EQ(ended.status, 200);
  EXPECT_NE(ended.Header("set-cookie").find("Max-Age=0"), std::string::npos);
  EXPECT_EQ(Get("/api/v1/jobs").status, 401);
  server_.reset();
  StartHttp();
  EXPECT_EQ(Get("/api/v1/jobs").status, 401) << "a restart does not bring it back";
  LogIn();
  server_.reset();
  std::filesystem::remove(folder_.str() + "/data/dashboard.key");
  StartHttp();
  EXPECT_EQ(Get("/api/v1/jobs").status, 401) << "the key that signed it is gone";
}

TEST_F(HttpTest, StreamsEndWithTheirSession) {
  StartHttp();
  LogIn();
  const std::string id = Submit(Request("one")).id();
  RawConnection stream = OpenStream("/api/v1/jobs/" + id + "/stream");
  ASSERT_EQ(NextEvent(stream)->id, "1");
  RawConnection feed = OpenStream("/api/v1/jobs/stream");
  ASSERT_TRUE(NextEvent(feed).has_value());
  const RawHeaders mine = {{"Cookie", cookie_}, {"X-Fettle-CSRF", csrf_}};
  LogIn();  // Another browser.
  RawConnection other = OpenStream("/api/v1/jobs/" + id + "/stream");
  ASSERT_EQ(NextEvent(other)->id, "1");
  EXPECT_EQ(RawRequest(port_, "DELETE", "/api/v1/session", mine).status, 200);
  EXPECT_FALSE(NextEvent(stream).has_value());
  EXPECT_FALSE(NextEvent(feed).has_value());
  StartWorker(HonestAnswer);
  EXPECT_EQ(NextEvent(other)->id, "2") << "others go on";
}

TEST_F(HttpTest, AHeadOfAStreamHasNoBody) {
  StartHttp();
  LogIn();
  const std::string id = Submit(Request("one")).id();
  for (const std::string& target :
       {"/api/v1/jobs/" + id + "/stream", std::string("/api/v1/jobs/stream")}) {
    RawConnection connection(port_);
    connection.Send("HEAD " + target + " HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1:" +
                    std::to_string(port_) + "\r\nCookie: " + cookie_ + "\r\n\r\n");
    const RawResponse head = connection.Head();
    EXPECT_EQ(head.status, 200) << target;
    EXPECT_EQ(head.Header("content-type"), "text/event-stream");
    EXPECT_FALSE(connection.Until("\n").has_value()) << target;
  }
}

TEST_F(HttpTest, GuardsEveryAnswer) {
  StartHttp();
  LogIn();
  for (const std::string target : {"/api/v1/jobs", "/api/v1/nothing", "/", "/missing.js"}) {
    const RawResponse response = Get(target);
    EXPECT_EQ(response.Header("x-content-type-options"), "nosniff") << target;
    EXPECT_EQ(response.Header("referrer-policy"), "no-referrer") << target;
    const std::string policy = response.Header("content-security-policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos) << target << policy;
    EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos) << target;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << target;
  }
}

TEST_F(HttpTest, NoAnswerShowsASecretWhileTheJobIsOpen) {
  StartHttp();
  LogIn();
  proposals_ = 6;
  StartWorker(
      [](const WorkUnit& unit) -> FakeAnswer {
        const auto block = unit.candidate.values.find("BLOCK");
        if (block != unit.candidate.values.end() && block->second == 5) return {};  // Held.
        return HonestAnswer(unit);
      },
      {.slots = 3});
  const std::string id = Submit(Request("open")).id();
  RawConnection stream = OpenStream("/api/v1/jobs/" + id + "/stream");
  while (const std::optional<RawEvent> event = NextEvent(stream)) {
    if (event->name == "variant_accepted") break;
  }
  const auto variants = GetJson("/api/v1/variants")["variants"];
  ASSERT_FALSE(variants.empty());
  const std::string variant = variants[0]["id"];
  const std::string digest = variants[0]["candidate_digest"];
  for (const std::string& target :
       {"/api/v1/variants/" + variant, "/api/v1/jobs/" + id + "/candidates/" + digest,
        "/api/v1/jobs/" + id + "/events"}) {
    const std::string body = Get(target).body;
    EXPECT_EQ(body.find("held_out_seed"), std::string::npos) << target;
    EXPECT_EQ(body.find("\"seeds\""), std::string::npos) << target;
  }
  const std::string everything = Get("/api/v1/variants/" + variant).body +
                                 Get("/api/v1/session").body + Get("/api/v1/workers").body +
                                 Get("/api/v1/server").body;
  for (const std::string& secret : {secret_, Token("operate"), Token("worker")}) {
    EXPECT_EQ(everything.find(secret), std::string::npos);
  }
}

TEST_F(HttpTest, RefusesWhatIsNoRequest) {
  StartHttp();
  LogIn();
  const std::string host = "Host: 127.0.0.1:" + std::to_string(port_) + "\r\n";
  const auto send = [&](const std::string& bytes) {
    RawConnection connection(port_);
    connection.Send(bytes);
    return connection.Response().status;
  };
  EXPECT_EQ(send("rubbish\r\n\r\n"), 400);
  EXPECT_EQ(send("GET /%zz HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(send("GET /%00 HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(send("GET nothing HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(send("GET / HTTP/1.1\r\n" + host + "X: " + std::string(20'000, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(Post("/api/v1/session", std::string(100'000, 'x')).status, 413);
  for (const std::string length : {"1000000", "2000000", "99999999999", "18446744073709551615"}) {
    EXPECT_EQ(
        send("POST /api/v1/jobs HTTP/1.1\r\n" + host + "Content-Length: " + length + "\r\n\r\n"),
        413)
        << length;
  }
  EXPECT_EQ(send("POST /api/v1/jobs HTTP/1.1\r\n" + host +
                 "Transfer-Encoding: chunked\r\n\r\n20000\r\n" + std::string(0x20000, 'x')),
            413);
  EXPECT_EQ(RawRequest(port_, "PUT", "/api/v1/jobs").status, 405);
  EXPECT_EQ(RawRequest(port_, "PUT", "/api/v1/jobs").Header("allow"), "GET, POST");
  EXPECT_EQ(RawRequest(port_, "POST", "/").status, 405);
  EXPECT_EQ(Get("/api/v1/nothing").status, 404);
  EXPECT_EQ(Get("/api/v1/jobs/../../../etc/passwd").status, 404);
  EXPECT_EQ(Get("/api/v1/jobs").status, 200) << "it goes on serving";
}

TEST_F(HttpTest, SeveralRequestsShareAConnection) {
  StartHttp();
  LogIn();
  RawConnection connection(port_);
  for (int i = 0; i < 3; ++i) {
    connection.Send("GET /api/v1/server HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) +
                    "\r\nCookie: " + cookie_ + "\r\n\r\n");
    EXPECT_EQ(connection.Response().status, 200);
  }
  connection.Send("HEAD /api/v1/server HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1:" +
                  std::to_string(port_) + "\r\nCookie: " + cookie_ + "\r\n\r\n");
  const RawResponse head = connection.Head();
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.Header("content-length"), "0");
  EXPECT_FALSE(connection.Until("}").has_value()) << "HEAD has no body";
}

TEST_F(HttpTest, BeyondLoopbackNeedsTls) {
  ServerOptions options = Options();
  options.http = "0.0.0.0:0";
  const auto server = Server::Start(std::move(options));
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.status().message().find("TLS"), std::string::npos) << server.status();
}

TEST_F(HttpTest, ATakenPortIsAnErrorUnlessAnyWillDo) {
  StartHttp();
  ServerOptions options = Options();
  options.data_dir = folder_.str() + "/other";
  options.http = "127.0.0.1:" + std::to_string(port_);
  EXPECT_EQ(Server::Start(options).status().code(), absl::StatusCode::kUnavailable);
  options.http_any_port_if_taken = true;
  const auto other = Server::Start(options);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->login_link().find(":" + std::to_string(port_) + "/"), std::string::npos);
}

}  // namespace
}  // namespace fettle
