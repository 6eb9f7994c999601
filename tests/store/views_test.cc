// SPDX-License-Identifier: Apache-2.0
#include "store/views.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/variant_store.h"
#include "tests/fakes/store_rows.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

using ::testing::ElementsAre;

class ViewsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Store>> store =
        Store::Open({.data_dir = folder_.str() + "/data"});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(InsertFakeJob(*store_, "j1").ok());
  }
  void Write(const std::function<absl::Status(Connection&)>& body) {
    const absl::Status status = store_->Write(body);
    ASSERT_TRUE(status.ok()) << status;
  }
  template <typename Result>
  Result Read(const std::function<absl::StatusOr<Result>(Connection&)>& body) {
    Result result;
    const absl::Status status = store_->Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(result, body(db));
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }
  static VariantRow Variant(int number, double ratio) {
    VariantRow row;
    row.id = fmt::format("v{:03}", number);
    row.job_id = "j1";
    row.ordinal = number;
    row.candidate_digest = FakeDigest('e');
    row.task_digest = FakeDigest('a');
    row.target = number % 2 == 0 ? "cpu" : "sm_90a";
    row.device_model = "Model X";
    row.values_json = fmt::format("{{\"BLOCK\":{}}}", number);
    row.ratio = ratio;
    row.accepted_ns = 1'700'000'000'000'000'000 + number;  // Closer than a double can tell apart.
    row.provenance_json = "{}";
    return row;
  }
  static EvaluationRow Evaluation(std::int64_t ordinal, const std::string& kind, double low,
                                  double high) {
    EvaluationRow row;
    row.unit_id = fmt::format("j1.{}.{}", ordinal, kind);
    row.job_id = "j1";
    row.ordinal = ordinal;
    row.kind = kind;
    row.stored_ns = kind == "confirm" ? 20 : 10;
    row.result_json = "{}";
    for (const double weight : {1.0, 3.0}) {
      MeasurementRow one;
      one.against = "denominator";
      one.case_label = fmt::format("timed/{}", weight);
      one.weight = weight;
      one.ratio_low = low;
      one.ratio_high = high;
      row.measurements.push_back(one);
    }
    return row;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(ViewsTest, PagesOfEqualRatiosMissNothing) {
  struct Order {
    bool ascending;
    std::vector<std::string> words;
  };
  Write([](Connection& db) -> absl::Status {
    for (int i = 1; i <= 25; ++i) {
      FETTLE_RETURN_IF_ERROR(InsertVariant(db, Variant(i, i % 3)));
    }
    return absl::OkStatus();
  });
  for (const VariantSort sort : {VariantSort::kAccepted, VariantSort::kSpeedUp, VariantSort::kTask,
                                 VariantSort::kTarget, VariantSort::kRoofline}) {
    for (const auto& [ascending, words] :
         {Order{false, {}}, Order{true, {}}, Order{false, {"SCALE"}}, Order{true, {"scale"}}}) {
      VariantSearch search;
      search.sort = sort;
      search.ascending = ascending;
      search.words = words;  // A search is chosen from another index.
      std::set<std::string> ids;
      SortCursor cursor;
      int pages = 0;
      while (true) {
        const auto rows = Read<std::vector<VariantRow>>(
            [&](Connection& db) { return SearchVariants(db, search, cursor, 4); });
        for (const VariantRow& row : rows) EXPECT_TRUE(ids.insert(row.id).second) << row.id;
        if (rows.size() < 4 || ++pages > 10) break;
        cursor = CursorOf(rows.back(), sort);
      }
      EXPECT_EQ(ids.size(), 25U) << static_cast<int>(sort) << ascending;
    }
  }
}

TEST_F(ViewsTest, SearchesEveryWordInWhatIsListed) {
  Write([](Connection& db) -> absl::Status {
    for (int i = 1; i <= 6; ++i) FETTLE_RETURN_IF_ERROR(InsertVariant(db, Variant(i, i)));
    return absl::OkStatus();
  });
  const auto count = [&](std::vector<std::string> words, const std::string& target = "") {
    VariantSearch search;
    search.words = std::move(words);
    search.target = target;
    return Read<std::int64_t>([&](Connection& db) { return CountVariants(db, search); });
  };
  EXPECT_EQ(count({}), 6);
  EXPECT_EQ(count({"scale", "model", "cpu"}), 3);
  EXPECT_EQ(count({"\"block\":5"}), 1);
  EXPECT_EQ(count({"%"}), 0) << "no wildcard";
  EXPECT_EQ(count({"m_90"}), 3);
  EXPECT_EQ(count({"s_90"}), 0) << "no wildcard";
  EXPECT_EQ(count({"\\"}), 0) << "no escape";
  EXPECT_EQ(count({"SCALE", "MODEL"}), 6);
  EXPECT_EQ(count({"scale"}, "sm_90a"), 3);
}

TEST_F(ViewsTest, ATimelineHasTheLastUnitsIntervalAndParents) {
  Write([](Connection& db) -> absl::Status {
    for (int i = 1; i <= 3; ++i) {
      CandidateRow row = FakeCandidate("j1", i);
      if (i == 3) row.parent = FakeCandidate("j1", 1).digest;
      if (i == 2) row.parent = FakeDigest('9');  // Of another job.
      row.state = candidate_state::kJudged;
      row.verdict = "NO_WIN";
      row.verdict_json = i == 1 ? "not json" : R"({"reason_code": "screened"})";
      FETTLE_RETURN_IF_ERROR(InsertCandidate(db, row));
    }
    FETTLE_RETURN_IF_ERROR(InsertEvaluation(db, Evaluation(3, "evaluate", 1.5, 1.7)));
    FETTLE_RETURN_IF_ERROR(InsertEvaluation(db, Evaluation(3, "confirm", 1.2, 1.3)));
    return absl::OkStatus();
  });
  const auto points =
      Read<std::vector<TimelinePoint>>([](Connection& db) { return Timeline(db, "j1", 0, 10); });
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0].reason_code, "");
  EXPECT_EQ(points[1].reason_code, "screened");
  EXPECT_EQ(points[1].parent_ordinal, 0);
  EXPECT_EQ(points[2].parent_ordinal, 1);
  EXPECT_EQ(points[1].ratio_low, 0);
  EXPECT_NEAR(points[2].ratio_low, 1.2, 1e-12);
  EXPECT_NEAR(points[2].ratio_high, 1.3, 1e-12);
  const auto rest =
      Read<std::vector<TimelinePoint>>([](Connection& db) { return Timeline(db, "j1", 1, 1); });
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].ordinal, 2);
}

TEST_F(ViewsTest, ListsOpenAndLatelyEndedJobs) {
  Write([](Connection& db) -> absl::Status {
    for (const auto& [id, state, ended] :
         {std::tuple("j2", job_state::kSucceeded, 100), std::tuple("j3", job_state::kFailed, 300),
          std::tuple("j4", job_state::kRunning, 0)}) {
      JobRow job = FakeJob(id);
      job.state = state;
      job.finished_ns = ended;
      FETTLE_RETURN_IF_ERROR(InsertJob(db, job));
    }
    return absl::OkStatus();
  });
  const auto ids =
      Read<std::vector<std::string>>([](Connection& db) { return OpenOrEndedJobs(db, 200, 10); });
  EXPECT_THAT(ids, ElementsAre("j1", "j3", "j4"));
}

TEST_F(ViewsTest, CasesAreThoseOfTheConfirmation) {
  Write([](Connection& db) -> absl::Status {
    for (const int ordinal : {1, 2}) {
      FETTLE_RETURN_IF_ERROR(InsertVariant(db, Variant(ordinal, 2)));
      FETTLE_RETURN_IF_ERROR(InsertEvaluation(db, Evaluation(ordinal, "evaluate", 9, 9)));
      FETTLE_RETURN_IF_ERROR(InsertEvaluation(db, Evaluation(ordinal, "confirm", 1.9, 2.1)));
    }
    return absl::OkStatus();
  });
  const auto cases = Read<std::vector<VariantCase>>(
      [](Connection& db) { return ListVariantCases(db, {}, 0, "", 1); });
  ASSERT_EQ(cases.size(), 2U) << "both cases of one variant";
  EXPECT_EQ(cases[0].variant_id, "v002");
  EXPECT_EQ(cases[0].measured.ratio_low, 1.9);
  const auto rest = Read<std::vector<VariantCase>>([&](Connection& db) {
    return ListVariantCases(db, {}, cases[1].accepted_ns, cases[1].variant_id, 5);
  });
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].variant_id, "v001");
  EXPECT_EQ(Read<std::vector<RecentCase>>([](Connection& db) { return RecentCases(db, 3); }).size(),
            6U);
}

}  // namespace
}  // namespace fettle
