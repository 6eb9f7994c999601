// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/task.h"

namespace fettle {

inline constexpr char kLayernormYaml[] = R"yaml(format: 1
name: layernorm_fwd
summary: Row-wise layer normalization with fp32 accumulation.
license: Apache-2.0
types: {T: [f16, bf16, f32]}
dims:
  rows: {min: 0, max: 1048576}
  cols: {min: 1, max: 65536}
valid: ["rows*cols <= 2^31"]
args:
  - x:     {role: in,  dtype: $T, shape: [rows, cols], fill: {normal: [0, 1]}}
  - gamma: {role: in,  dtype: $T, shape: [cols], fill: {uniform: [-1, 1]}}
  - beta:  {role: in,  dtype: $T, shape: [cols], fill: {uniform: [-1, 1]}}
  - y:     {role: out, dtype: $T, shape: [rows, cols]}
  - rows:  {role: scalar, dtype: i32, value: rows}
  - cols:  {role: scalar, dtype: i32, value: cols}
  - eps:   {role: scalar, dtype: f32, value: 1.0e-5}
baseline:
  source: kernel.cu
  tunables: {BLOCK: [64, 128, 256, 512, 1024]}
  values: {BLOCK: 256}
  constraints: ["BLOCK <= target.max_block", "BLOCK % target.wave == 0"]
  workspace: []
  launches:
    - {kernel: "layernorm_fwd<$T>", grid: [rows], block: [BLOCK], shared: 0, args: [x, gamma, beta, y, rows, cols, eps]}
reference: {source: reference.cc, function: layernorm_ref}
cases:
  timed:   [{T: f16, rows: 16384, cols: 4096}, {T: bf16, rows: 8192, cols: 1024, weight: 2}]
  checked: [{T: f32, rows: 1, cols: 1}, {T: f16, rows: 3, cols: 257}, {T: f16, rows: 0, cols: 8}]
  held_out: 3
tolerance: {y: {auto: {reduce: cols, inner: f32}}}
work: {bytes: "2*sizeof(T)*rows*cols", flops: "8*rows*cols"}
contract: {deterministic: true, nonfinite: propagate}
rivals: []
)yaml";

// The example of the design page, as a task folder.
inline TaskFiles LayernormFiles() {
  return {{"task.yaml", kLayernormYaml},
          {"kernel.cu", "// kernel\n"},
          {"reference.cc", "// reference\n"}};
}

// The same with the first occurrence of `from` in task.yaml replaced.
inline TaskFiles Edited(const std::string& from, const std::string& to) {
  TaskFiles files = LayernormFiles();
  std::string& text = files["task.yaml"];
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return files;
}

inline std::shared_ptr<const Task> ParseOk(TaskFiles files) {
  std::vector<TaskProblem> problems;
  auto task = Task::Parse(std::move(files), &problems);
  EXPECT_TRUE(task.ok()) << FormatProblems(problems);
  return task.ok() ? *task : nullptr;
}

// All problems as one text; empty when the task is fine.
inline std::string ProblemsOf(TaskFiles files) {
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(std::move(files), &problems);
  EXPECT_EQ(task.ok(), problems.empty());
  return FormatProblems(problems);
}

}  // namespace fettle
