// SPDX-License-Identifier: Apache-2.0
#include "core/bound_json.h"

#include <limits>

namespace fettle {
namespace {

using nlohmann::json;

BoundCase SampleCase() {
  BoundCase out;
  out.label = "timed/0";
  out.set = CaseSet::kTimed;
  out.types = {{"T", DType::kF16}};
  out.dims = {{"rows", false, {3}}, {"lens", true, {0, 5, 33}}};
  BoundTensor x;
  x.name = "x";
  x.dtype = DType::kF16;
  x.shape = {3, 4};
  x.strides = {8, 1};
  x.fill.kind = Fill::Kind::kNormal;
  x.fill.b = 1;
  Fill other;
  other.kind = Fill::Kind::kConstant;
  x.fill.rows = {{2, other}};
  BoundTensor y = x;
  y.name = "y";
  y.role = Role::kInOut;
  y.restore.kind = Restore::Kind::kTouchedList;
  y.restore.rows = {1, 2};
  out.tensors = {x, y};
  out.scalars = {{"eps", DType::kF32, 0, 1e-5}};
  out.pointers = {{"table", 0, 2, true}};
  out.tolerances = {{.output = "y", .reduce = 4, .acc = DType::kF32, .inner = DType::kBF16}};
  return out;
}

BoundPlan SamplePlan() {
  BoundPlan plan;
  BoundStep step;
  step.entry = "f<__half>";
  step.grid = {3, 1, 1};
  BoundArg tensor, value, structure;
  tensor.kind = BoundArg::Kind::kTensor;
  tensor.offset = 2;
  value.bytes = {1, 2, 3, 4};
  structure.kind = BoundArg::Kind::kStruct;
  structure.bytes.resize(24);
  structure.align = 8;
  structure.fields = {{8, tensor}};
  step.args = {tensor, value, structure};
  BoundStep fill;
  fill.kind = BoundStep::Kind::kFill;
  fill.target = tensor;
  fill.byte_count = 16;
  fill.fill_byte = 0xa5;
  BoundStep copy = fill;
  copy.kind = BoundStep::Kind::kCopy;
  copy.fill_byte = 0;
  copy.source = tensor;
  plan.steps = {step, fill, copy};
  plan.workspace = {{"partial", DType::kF32, 128, true}};
  return plan;
}

TEST(BoundCaseJson, RoundTrips) {
  const json first = ToJson(SampleCase());
  const auto back = BoundCaseFromJson(json::parse(first.dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), first);
  EXPECT_EQ(back->tolerances[0].inner, DType::kBF16);
}

TEST(BoundCaseJson, KeepsLongListsAndSendsThemShort) {
  BoundCase one = SampleCase();
  std::vector<std::int64_t> lens;
  for (std::int64_t i = 0; i < 100'000; ++i) lens.push_back(i * 7919 % 41);
  lens.insert(lens.end(), {std::numeric_limits<std::int64_t>::max(),
                           std::numeric_limits<std::int64_t>::min(), -1, 0, 1});
  one.dims.push_back({"lens", true, lens});
  one.tensors[0].fill.list = lens;
  one.tensors[1].restore.rows = lens;
  const std::string text = ToJson(one).dump();
  EXPECT_LT(text.size(), 3 * lens.size() * 3 / 2);
  const auto back = BoundCaseFromJson(json::parse(text));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->dims.back().values, lens);
  EXPECT_EQ(back->tensors[0].fill.list, lens);
  EXPECT_EQ(back->tensors[1].restore.rows, lens);
}

TEST(BoundCaseJson, RefusesListsThatAreNoLists) {
  json form = ToJson(SampleCase());
  // Cut short, too long for 64 bits, not base64.
  for (const char* text : {"gA==", "////////////fw==", "////////////////AQ==", "%"}) {
    form["dims"][0]["values"] = text;
    EXPECT_FALSE(BoundCaseFromJson(form).ok()) << text;
  }
}

TEST(BoundPlanJson, RoundTrips) {
  const json first = ToJson(SamplePlan());
  const auto back = BoundPlanFromJson(json::parse(first.dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), first);
  EXPECT_EQ(back->steps[0].args[2].bytes.size(), 24u);
}

// Every field of every object: extra ones, missing ones and ones of the wrong type are refused,
// and nothing crashes.
void Mutate(const json& whole, const std::function<bool(const json&)>& accepts) {
  const json flat = whole.flatten();
  for (auto it = flat.begin(); it != flat.end(); ++it) {
    const std::string& pointer = it.key();
    for (const json& wrong : {json("?"), json(-7), json::array({1}), json(1e300)}) {
      json copy = whole;
      copy[json::json_pointer(pointer)] = wrong;
      accepts(copy);
    }
  }
}

TEST(BoundJson, SurvivesArbitraryChanges) {
  int refused = 0;
  Mutate(ToJson(SampleCase()), [&](const json& changed) {
    const bool ok = BoundCaseFromJson(changed).ok();
    refused += !ok;
    return ok;
  });
  Mutate(ToJson(SamplePlan()), [&](const json& changed) {
    const bool ok = BoundPlanFromJson(changed).ok();
    refused += !ok;
    return ok;
  });
  EXPECT_GT(refused, 300);
}

TEST(BoundJson, RefusesUnknownFieldsAtEveryLevel) {
  json extra = ToJson(SampleCase());
  extra["tensors"][0]["fill"]["colour"] = 1;
  EXPECT_FALSE(BoundCaseFromJson(extra).ok());
  extra = ToJson(SamplePlan());
  extra["steps"][1]["grid"] = json::array({1, 1, 1});
  EXPECT_FALSE(BoundPlanFromJson(extra).ok());
}

TEST(BoundJson, RefusesLayoutsThatOverflow) {
  json huge = ToJson(SampleCase());
  huge["tensors"][0]["shape"] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_THAT(std::string(BoundCaseFromJson(huge).status().message()),
              ::testing::HasSubstr("shape and strides"));
  huge = ToJson(SampleCase());
  huge["pointers"][0]["count"] = 3;
  EXPECT_FALSE(BoundCaseFromJson(huge).ok());
}

TEST(BoundTensor, ExtentCountsPadding) {
  BoundTensor tensor;
  tensor.shape = {3, 4};
  tensor.strides = {8, 1};
  EXPECT_EQ(tensor.elements(), 12);
  EXPECT_EQ(tensor.extent(), 20);
  tensor.shape = {0, 4};
  EXPECT_EQ(tensor.extent(), 0);
  tensor.shape = {};
  tensor.strides = {};
  EXPECT_EQ(tensor.extent(), 1);
}

TEST(BoundCase, DescribesItsDims) {
  EXPECT_EQ(SampleCase().Describe(), "rows=3 lens=[0,5,33] T=f16");
}

}  // namespace
}  // namespace fettle
