// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/llm/retry.h"
#include "agent/model_catalog.h"
#include "core/clock.h"
#include "server/device_time.h"
#include "server/dispatcher.h"
#include "store/store.h"

namespace fettle {

class HttpClient;

// What the proposers around a model share, in one server. All of it outlives the jobs.
struct AgentServices {
  ModelCatalog models;
  HttpClient* http = nullptr;  // Borrowed.
  RetryPolicy retry;
  InterruptibleSleep sleep = RealSleep();
  std::string recordings_dir;  // Of the operator; may be empty or missing.
};

// What one job's proposer may use besides.
struct JobServices {
  AgentServices* agent = nullptr;  // Null: no models here.
  Store* store = nullptr;
  Dispatcher* dispatcher = nullptr;
  Clock* clock = nullptr;
  std::string job_id;
  std::function<void()> wake;               // There is something to propose, or an end.
  std::function<void()> charged;            // What calls to models cost has changed.
  std::shared_ptr<DeviceTime> device_time;  // The job's budget of it.
  std::function<void(std::string code, std::string text)> note;  // Into the job's events.
};

}  // namespace fettle
