// SPDX-License-Identifier: Apache-2.0
// The generated dispatcher against the manifest's guards, on a million random calls.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/expr.h"
#include "core/random.h"
#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr int kCalls = 1'000'000;

// One call, as test and program exchange it.
struct Call {
  std::int64_t type, rows, cols, mode;  // 0: f64, 1: f32, 2: f16, which the operator does not take.
  double scale;
};
struct Answer {
  std::int32_t kernel, choice;
};

constexpr char kProgram[] = R"text(
#include <cstdio>
#include <fettle_ops/row_sum.hpp>
namespace ops = fettle_ops::row_sum;
struct Call { std::int64_t type, rows, cols, mode; double scale; };
struct Answer { std::int32_t kernel, choice; };
int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::FILE* in = std::fopen(argv[1], "rb");
  std::FILE* out = std::fopen(argv[2], "wb");
  static ops::Operator op;
  Call call;
  while (std::fread(&call, sizeof call, 1, in) == 1) {
    ops::Types types;
    types.T = static_cast<fettle::DType>(call.type);
    ops::Shape shape;
    shape.rows = call.rows;
    shape.cols = call.cols;
    shape.mode = call.mode;
    ops::Args args;
    args.scale = call.scale;
    const fettle::Decision decision = op.choose("cpu", types, shape, args);
    const Answer answer{decision.kernel, static_cast<std::int32_t>(decision.choice)};
    std::fwrite(&answer, sizeof answer, 1, out);
  }
  std::fclose(in);
  return std::fclose(out);
}
)text";

// The manifest's guards and selection, read by other means than the generator's.
class Oracle {
 public:
  explicit Oracle(const json& manifest) {
    for (const json& variant : manifest["variants"]) {
      Variant one;
      one.id = variant["id"];
      for (const json& envelope : variant["guards"]["envelopes"]) {
        Box box;
        box.type = envelope["types"]["T"] == "f64" ? 0 : 1;
        for (const auto& [name, range] : envelope["dims"].items()) {
          box.dims.push_back(
              {name, range["min"], range["max"], range.value("multiple_of", std::int64_t{1})});
        }
        const json elements = envelope.value("elements", json::object());  // Without: no call fits.
        box.most_x = elements.value("x", std::int64_t{-1});
        box.most_y = elements.value("y", std::int64_t{-1});
        box.low = envelope["scalars"]["scale"]["min"];
        box.high = envelope["scalars"]["scale"]["max"];
        one.boxes.push_back(box);
      }
      for (const json& text : variant["guards"]["requires"])
        one.conditions.push_back(*Expr::Parse(text.get<std::string>()));
      variants_.push_back(std::move(one));
    }
    for (const json& row : manifest["selection"]["targets"][0]["rows"]) {
      Row out;
      out.kind = row["kind"] == "exact" ? 1 : row["kind"] == "bucket" ? 2 : 3;
      out.type = !row["types"].contains("T") ? -1 : row["types"]["T"] == "f64" ? 0 : 1;
      for (const auto& [name, range] : row["dims"].items())
        out.dims.push_back({name, range["min"], range["max"], 1});
      for (const json& id : row["order"]) {
        for (std::size_t v = 0; v < variants_.size(); ++v) {
          if (variants_[v].id == id) out.order.push_back(static_cast<int>(v));
        }
      }
      rows_.push_back(std::move(out));
    }
  }

  int baseline() const { return static_cast<int>(variants_.size()); }
  std::size_t variants() const { return variants_.size(); }

  static bool Legal(const Call& call) {
    return call.type <= 1 && call.rows >= 0 && call.rows <= 4096 && call.cols >= 1 &&
           call.cols <= 1024 && (call.mode == 1 || call.mode == 2) &&
           call.rows * call.cols <= 1 << 20;
  }
  bool Tested(int variant, const Call& call) const {
    const Variant& one = variants_[static_cast<std::size_t>(variant)];
    bool inside = false;
    for (const Box& box : one.boxes) {
      inside = inside || (box.type == call.type && call.scale >= box.low &&
                          call.scale <= box.high && Within(box.dims, call) &&
                          call.rows * call.cols <= box.most_x && call.rows <= box.most_y);
    }
    if (!inside) return false;
    ExprScope scope;
    scope.Set("rows", call.rows);
    scope.Set("cols", call.cols);
    scope.Set("mode", call.mode);
    for (const Expr& condition : one.conditions) {
      const auto value = condition.Evaluate(scope);
      if (!value.ok() || *value == 0) return false;
    }
    return true;
  }
  // Within a variant's ranges and above its volume.
  bool InCorner(const Call& call) const {
    for (const Variant& variant : variants_) {
      for (const Box& box : variant.boxes) {
        if (box.type == call.type && Within(box.dims, call) && call.rows * call.cols > box.most_x)
          return true;
      }
    }
    return false;
  }
  Answer Expected(const Call& call) const {
    if (!Legal(call)) return {-1, 0};
    for (const Row& row : rows_) {
      if ((row.type >= 0 && row.type != call.type) || !Within(row.dims, call)) continue;
      for (const int variant : row.order) {
        if (Tested(variant, call)) return {variant, FirstKind(variant, call)};
      }
    }
    return {baseline(), 4};
  }

 private:
  struct Range {
    std::string name;
    std::int64_t min, max, step;
  };
  struct Box {
    int type;
    std::vector<Range> dims;
    std::int64_t most_x, most_y;  // Elements.
    double low, high;
  };
  struct Variant {
    std::string id;
    std::vector<Box> boxes;
    std::vector<Expr> conditions;
  };
  struct Row {
    int kind, type;
    std::vector<Range> dims;
    std::vector<int> order;
  };
  static bool Within(const std::vector<Range>& dims, const Call& call) {
    for (const Range& dim : dims) {
      const std::int64_t value = dim.name == "rows"   ? call.rows
                                 : dim.name == "cols" ? call.cols
                                 : dim.name == "mode" ? call.mode
                                                      : std::max(call.rows, call.cols);
      if (value < dim.min || value > dim.max || value % dim.step != 0) return false;
    }
    return true;
  }
  // The first row that names the variant.
  int FirstKind(int variant, const Call& call) const {
    for (const Row& row : rows_) {
      if ((row.type >= 0 && row.type != call.type) || !Within(row.dims, call)) continue;
      for (const int other : row.order) {
        if (other == variant) return row.kind;
      }
    }
    return 0;
  }
  std::vector<Variant> variants_;
  std::vector<Row> rows_;
};

Call Draw(Random& random) {
  static constexpr std::int64_t kRows[] = {0,   1,   2,   7,   31,  32,  33,   63,   64, 65,
                                           128, 129, 180, 511, 512, 513, 4096, 4097, -1};
  static constexpr std::int64_t kCols[] = {0,   1,   3,   4,   8,   63,  64,   65,   100, 127,
                                           128, 129, 255, 256, 257, 512, 1023, 1024, 1025};
  static constexpr double kScales[] = {0.5, 2, 1, 0.49, 2.01, 0.0};
  Call call;
  call.type = random.Below(20) == 0 ? 2 : static_cast<std::int64_t>(random.Below(2));
  call.rows = random.Below(3) == 0 ? kRows[random.Below(std::size(kRows))]
                                   : static_cast<std::int64_t>(random.Below(700));
  call.cols = random.Below(3) == 0 ? kCols[random.Below(std::size(kCols))]
                                   : static_cast<std::int64_t>(random.Below(1100));
  call.mode = random.Below(10) == 0 ? static_cast<std::int64_t>(random.Below(4))
                                    : 1 + static_cast<std::int64_t>(random.Below(2));
  call.scale = random.Below(50) == 0 ? std::nan("") : kScales[random.Below(std::size(kScales))];
  return call;
}

TEST(Dispatch, NoCallReachesAVariantOutsideItsEnvelope) {
  const BundleFiles bundle = GuardBundle();
  ASSERT_FALSE(bundle.empty());
  const TestFolder folder;
  const std::string at = folder.path() + "/bundle";
  ASSERT_TRUE(WriteBundle(at, bundle).ok());
  const std::string program = CompileConsumer(folder, kProgram, bundle, at, "");
  Random random(20260101);
  std::vector<Call> calls(kCalls);
  for (Call& call : calls) call = Draw(random);
  folder.Write("calls.bin", std::string(reinterpret_cast<const char*>(calls.data()),
                                        calls.size() * sizeof(Call)));
  const CommandResult run =
      RunCommand(program + " " + folder.path() + "/calls.bin " + folder.path() + "/answers.bin");
  ASSERT_EQ(run.code, 0) << run.output;
  const std::string bytes = folder.Read("answers.bin");
  ASSERT_EQ(bytes.size(), calls.size() * sizeof(Answer));
  std::vector<Answer> answers(calls.size());
  std::memcpy(answers.data(), bytes.data(), bytes.size());
  const Oracle oracle(json::parse(bundle.at("manifest.json")));
  std::map<std::pair<int, int>, int> seen;
  int wrong = 0, corners = 0;
  for (std::size_t i = 0; i < calls.size() && wrong < 10; ++i) {
    const Call& call = calls[i];
    const Answer got = answers[i], want = oracle.Expected(call);
    ++seen[{got.kernel, got.choice}];
    corners += oracle.InCorner(call) ? 1 : 0;
    const bool outside =
        got.kernel >= 0 && got.kernel < oracle.baseline() && !oracle.Tested(got.kernel, call);
    if (!outside && got.kernel == want.kernel && got.choice == want.choice) continue;
    ++wrong;
    ADD_FAILURE() << "T=" << call.type << " rows=" << call.rows << " cols=" << call.cols
                  << " mode=" << call.mode << " scale=" << call.scale << ": kernel " << got.kernel
                  << " choice " << got.choice << ", wanted " << want.kernel << " choice "
                  << want.choice << (outside ? " OUTSIDE ITS ENVELOPE" : "");
  }
  EXPECT_GE(corners, 1000);
  // Every way of choosing occurs: both variants, the fallback, a refusal; exact, bucket and
  // generic.
  std::set<int> kernels, choices;
  for (const auto& [pair, count] : seen) {
    kernels.insert(pair.first);
    choices.insert(pair.second);
  }
  EXPECT_EQ(kernels, (std::set<int>{-1, 0, 1, 2}));
  EXPECT_EQ(choices, (std::set<int>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace fettle
