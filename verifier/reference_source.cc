// SPDX-License-Identifier: Apache-2.0
#include "verifier/reference.h"

namespace fettle {

ReferenceSource ReferenceSourceOf(const Task& task) {
  ReferenceSource source;
  source.task_digest = task.digest();
  source.kind = task.reference().kind;
  source.reference = {task.reference().source, task.reference().function, {}};
  source.stored = task.reference().files;
  for (const Task::CheckerSpec& checker : task.checkers()) {
    source.checkers.push_back({checker.source, checker.function, checker.outputs});
  }
  source.files = task.files();
  return source;
}

}  // namespace fettle
