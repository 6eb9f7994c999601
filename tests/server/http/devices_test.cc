// SPDX-License-Identifier: Apache-2.0
// What workers report of their devices, from a heartbeat to the API.

#include "server/worker_report.h"
#include "tests/server/http/http_fixture.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

Json State(const std::string& health) {
  return {{"held", 0},
          {"devices",
           {{{"id", "cpu"},
             {"model", "fake cpu"},
             {"target", "cpu"},
             {"driver", "7"},
             {"uuid", "u-1"},
             {"health", health},
             {"load", 2},
             {"ceilings",
              {{"bytes_per_s", 4e10},
               {"cached_bytes_per_s", 9e10},
               {"flops_per_s", 0},
               {"flops8_per_s", 0}}},
             {"aa",
              {{"candidates", 20},
               {"confirmations", 2},
               {"false_wins", 1},
               {"ratio_low", 0.98},
               {"ratio_high", 1.02},
               {"spread_median", 0.002},
               {"spread_p95", 0.01},
               {"measured_ns", 1'700'000'000'000'000'000},
               {"extra", "dropped"}}}}}}};
}

class DevicesTest : public HttpTest {
 protected:
  // The first device that the list holds, once `ready` holds for it.
  Json WaitForDevice(const std::function<bool(const Json&)>& ready) {
    for (int i = 0; i < 500; ++i) {
      const Json devices = GetJson("/api/v1/devices")["devices"];
      if (!devices.empty() && ready(devices[0])) return devices[0];
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "no such device within five seconds";
    return {};
  }
};

TEST_F(DevicesTest, ShowsWhatAWorkerReportedAlsoWhenItIsGone) {
  StartHttp();
  LogIn();
  StartWorker(HonestAnswer, {.states = {State("ok").dump(), State("quarantined").dump()}});
  const Json device =
      WaitForDevice([](const Json& one) { return one["reports"][0]["health"] == "quarantined"; });
  EXPECT_EQ(device["device_model"], "fake cpu");
  EXPECT_EQ(device["measured_cases"], 0) << "reported before anything was measured";
  const Json& report = device["reports"][0];
  EXPECT_EQ(report["ceilings"]["bytes_per_s"], 4e10);
  EXPECT_EQ(report["aa"]["false_wins"], 1);
  EXPECT_FALSE(report["aa"].contains("extra"));
  const Json worker = GetJson("/api/v1/workers")["workers"][0];
  EXPECT_EQ(worker["device_states"][0]["health"], "quarantined");
  EXPECT_EQ(worker["device_states"][0]["load"], 2);
  worker_.reset();
  const Json kept = GetJson("/api/v1/ceilings?target=cpu")["devices"];
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0]["ceilings"]["cached_bytes_per_s"], 9e10);
  EXPECT_TRUE(GetJson("/api/v1/ceilings?target=sm_90a")["devices"].empty());
}

TEST_F(DevicesTest, AMalformedReportHarmsNobody) {
  StartHttp();
  LogIn();
  StartWorker(HonestAnswer, {.states = {"[]", "{\"devices\": 3}", "not json",
                                        std::string(100'000, ' ') + "{}", "{}"}});
  const std::string id = Submit(Request("r")).id();
  Watch(id);
  EXPECT_EQ(GetJob(id).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(GetJson("/api/v1/workers")["workers"][0]["device_states"], Json::array());
}

TEST(WorkerReportTest, KeepsWhatItKnowsAndDropsTheRest) {
  Json state = State("odd");
  state["devices"][0]["ceilings"]["bytes_per_s"] = -3;
  state["devices"][0]["model"] = std::string(1'000, 'm');
  state["devices"][0]["aa"].erase("false_wins");
  const auto reports = ParseDeviceReports(state.dump());
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_EQ(reports->size(), 1U);
  const DeviceReportRow& row = reports->front().row;
  EXPECT_EQ(row.health, "ok");
  EXPECT_EQ(row.bytes_per_s, 0);
  EXPECT_EQ(row.aa_json, "") << "figures are kept whole or not at all";
  EXPECT_LE(row.model.size(), 200U);
  EXPECT_TRUE(ParseDeviceReports("").value().empty());
  EXPECT_TRUE(ParseDeviceReports("{\"held\": 1}").value().empty()) << "an older worker";
  EXPECT_EQ(ParseDeviceReports("{\"devices\": [3]}").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fettle
