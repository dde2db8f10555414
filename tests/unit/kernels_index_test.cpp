// Compares reads and writes of blocks by index tensors with the reference kernels: some indices are
// equal, and some are out of range.
#include "kernel_harness.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Shape;

TestTensor values(DType dtype, Shape shape, uint32_t seed = 1) {
  return TestTensor(dtype, std::move(shape), -50, 50, seed);
}
// Returns indices in [-1, high].
TestTensor indices(Shape shape, int64_t high, uint32_t seed = 9) {
  return TestTensor(DType::kI32, std::move(shape), -1.99, static_cast<double>(high) + 0.99, seed);
}

constexpr DType kAnyBytes[] = {DType::kF32, DType::kF16, DType::kI8, DType::kI64};
constexpr DType kSummed[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32};

TEST(Index, PicksWhatTheReferencePicks) {
  for (DType dtype : kAnyBytes) {
    for (int64_t axis : {0, 1, 2}) {
      const TestTensor x = values(dtype, {9, 8, 7});
      const int64_t size = x.type.shape[axis];
      expect_matches_reference({"index_select", {{"axis", axis}}, {x, indices({20}, size)}, 0});
      Shape some = {5, 6, 3};
      some[axis] = 30;
      expect_matches_reference({"gather", {{"axis", axis}}, {x, indices(some, size)}, 0});
      expect_matches_reference(
          {"dynamic_slice", {{"axis", axis}, {"size", int64_t{4}}}, {x, indices({}, 30)}, 0});
    }
    const TestTensor x = values(dtype, {9, 8, 5});
    expect_matches_reference({"index", {}, {x, indices({700}, 9)}, 0});
    expect_matches_reference({"index", {}, {x, indices({6, 1}, 9), indices({4}, 8, 3)}, 0});
    expect_matches_reference(
        {"index", {}, {x, indices({6}, 9), indices({6}, 8, 3), indices({}, 5, 4)}, 0});
  }
}

TEST(Index, PutsWhereTheReferencePuts) {
  for (DType dtype : kAnyBytes) {
    const TestTensor x = values(dtype, {9, 8, 7});
    for (int64_t axis : {0, 1, 2}) {
      Shape some = {5, 6, 3};
      some[axis] = 30;
      expect_matches_reference({"scatter",
                                {{"axis", axis}},
                                {x, indices(some, x.type.shape[axis]), values(dtype, some, 2)},
                                0});
      Shape window = x.type.shape;
      window[axis] = 3;
      expect_matches_reference(
          {"dynamic_update", {{"axis", axis}}, {x, values(dtype, window, 2), indices({}, 30)}, 0});
    }
    expect_matches_reference(
        {"index_put", {}, {x, values(dtype, {700, 8, 7}, 2), indices({700}, 9)}, 0});
    expect_matches_reference(
        {"index_put",
         {},
         {x, values(dtype, {6, 4, 7}, 2), indices({6, 1}, 9), indices({4}, 8, 3)},
         0});
  }
}

TEST(Index, JoinsInTheOrderOfTheIndices) {
  for (DType dtype : kSummed) {
    const double tolerance = ir::is_half(dtype) ? 0 : 1e-4;
    for (int64_t axis : {0, 1}) {
      Shape src = {40, 30};
      src[axis] = 500;
      expect_matches_reference(
          {"index_add",
           {{"axis", axis}},
           {values(dtype, {40, 30}), indices({500}, 40 - 10 * axis), values(dtype, src, 2)},
           tolerance});
      for (const char* how : {"sum", "max", "min", "prod"}) {
        const Shape some = {20, 30};
        expect_matches_reference({"scatter",
                                  {{"axis", axis}, {"reduction", std::string(how)}},
                                  {TestTensor(dtype, {40, 30}, 1, 3, 1), indices(some, 30),
                                   TestTensor(dtype, some, 1, 3, 2)},
                                  tolerance});
      }
    }
    expect_matches_reference({"index_put",
                              {{"accumulate", true}},
                              {values(dtype, {9, 8, 5}), values(dtype, {60, 40, 5}, 2),
                               indices({60, 1}, 9), indices({40}, 8, 3)},
                              tolerance});
  }
}

TEST(Index, CombinesFewElementsOfLongColumns) {
  for (DType dtype : kSummed) {
    const double tolerance = dtype == DType::kBF16 ? 8e-3 : dtype == DType::kF16 ? 1e-3 : 1e-4;
    expect_matches_reference(
        {"scatter",
         {{"axis", int64_t{1}}, {"reduction", std::string("sum")}},
         {values(dtype, {6, 4000}), indices({6, 16}, 20), TestTensor(dtype, {6, 16}, 1, 3, 2)},
         tolerance});
  }
}

// Indices and tensor have the same other dimensions; some indices lie outside.
TEST(Index, ScattersByColumns) {
  for (DType dtype : kSummed) {
    // The reference rounds sums of doubles.
    const double tolerance = dtype == DType::kBF16 ? 8e-3 : dtype == DType::kF16 ? 1e-3 : 1e-4;
    for (const Shape& shape : {Shape{40, 30}, Shape{30, 50, 7}, Shape{9, 300}, Shape{5000, 69},
                               Shape{2, 20, 5, 6}, Shape{1000}}) {
      for (int64_t axis = 0; axis < std::ssize(shape); ++axis) {
        Shape some = shape;
        some[axis] = some[axis] / 3 + 1;
        for (const char* how : {"none", "sum", "max", "min", "prod"}) {
          if (shape[0] == 5000 && (axis > 0 || how[0] != 's')) continue;
          expect_matches_reference({"scatter",
                                    {{"axis", axis}, {"reduction", std::string(how)}},
                                    {TestTensor(dtype, shape, 1, 3, 1), indices(some, shape[axis]),
                                     TestTensor(dtype, some, 1, 3, 2)},
                                    std::string(how) == "none" ? 0 : tolerance});
        }
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
