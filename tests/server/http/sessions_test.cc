// SPDX-License-Identifier: Apache-2.0
#include "server/http/sessions.h"

#include <gtest/gtest.h>

#include "core/digest.h"
#include "store/files.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

constexpr std::int64_t kDayNs = std::int64_t{24} * 3'600 * 1'000'000'000;

class SessionsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Sessions> Open() {
    auto sessions = Sessions::Open(folder_.str(), "0123456789abcdef", access_);
    EXPECT_TRUE(sessions.ok()) << sessions.status();
    return sessions.ok() ? *std::move(sessions) : nullptr;
  }

  TemporaryFolder folder_;
  Access access_{{{.name = "eve", .role = AccessRole::kRead, .sha256 = Sha256Hex("1")}}};
};

TEST_F(SessionsTest, LastThirtyDays) {
  const auto sessions = Open();
  const Session session = sessions->LogIn(sessions->login_secret(), kDayNs).value();
  const std::string cookie = sessions->Cookie(session);
  EXPECT_EQ(sessions->FromCookie(cookie, 30 * kDayNs)->id, session.id);
  EXPECT_FALSE(sessions->FromCookie(cookie, 31 * kDayNs).has_value());
  EXPECT_TRUE(sessions->IsOpen(session, 30 * kDayNs));
  EXPECT_FALSE(sessions->IsOpen(session, 31 * kDayNs));
  EXPECT_TRUE(sessions->IsOpen(sessions->FromBearer("Bearer 1").value(), 1'000 * kDayNs));
}

TEST_F(SessionsTest, AChangedCookieIsNone) {
  const auto sessions = Open();
  const Session session = sessions->LogIn("1", 0).value();
  EXPECT_EQ(session.role, AccessRole::kRead);
  const std::string cookie = sessions->Cookie(session);
  EXPECT_EQ(sessions->FromCookie(cookie, 1)->role, AccessRole::kRead);
  const auto dot = cookie.find('.');
  for (std::size_t i = 0; i < cookie.size(); i += 7) {
    std::string other = cookie;
    other[i] = other[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(sessions->FromCookie(other, 1).has_value()) << i;
  }
  Session more = session;
  more.role = AccessRole::kOperate;
  more.token.clear();
  const std::string claimed = sessions->Cookie(more);
  const std::string mixed = claimed.substr(0, claimed.find('.')) + cookie.substr(dot);
  for (const std::string& bad : {mixed, cookie.substr(0, dot), cookie.substr(dot), std::string(),
                                 std::string("."), std::string("x.y"), cookie + "." + cookie}) {
    EXPECT_FALSE(sessions->FromCookie(bad, 1).has_value()) << bad;
  }
}

TEST_F(SessionsTest, EndedOnesStayEndedOverARestart) {
  auto sessions = Open();
  const Session one = sessions->LogIn("1", 0).value();
  const Session two = sessions->LogIn("1", kDayNs).value();
  const std::string first = sessions->Cookie(one);
  const std::string second = sessions->Cookie(two);
  ASSERT_TRUE(sessions->End(one, 1).ok());
  sessions = Open();
  EXPECT_FALSE(sessions->FromCookie(first, 2).has_value());
  EXPECT_TRUE(sessions->FromCookie(second, 2).has_value());
  // Once it would have expired, nothing is kept of it.
  ASSERT_TRUE(sessions->End(two, 30 * kDayNs).ok());
  const std::string kept = ReadWholeFile(folder_.str() + "/dashboard.ended").value();
  EXPECT_EQ(kept.find(one.id), std::string::npos);
  EXPECT_NE(kept.find(two.id), std::string::npos);
}

TEST_F(SessionsTest, SaysWhatToDoWithABrokenFile) {
  { const auto made = Open(); }
  ASSERT_TRUE(WriteFileDurably(folder_.str() + "/dashboard.ended", "[").ok());
  const auto sessions = Sessions::Open(folder_.str(), "0123456789abcdef", access_);
  EXPECT_EQ(sessions.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(sessions.status().message().find("remove it and dashboard.key"), std::string::npos)
      << sessions.status();
}

}  // namespace
}  // namespace fettle
