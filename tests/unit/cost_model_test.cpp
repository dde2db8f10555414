// The cost model of ops by shape: terms, limits, and how cycles grow with a shape.
#include <gtest/gtest.h>

#include <cmath>

#include "target/contraction.hpp"

namespace poptorch::target {
namespace {

const Device& gc200() { return find_device("ipu2"); }

Contraction square_product(int64_t rows, int64_t inner, int64_t outer, bool half = true) {
  Contraction made{.half = half, .partial_bytes = half ? 2 : 4};
  made.width = rows;
  made.inner = inner;
  made.outer = outer;
  return made;
}

double cycles_of_plan(const Contraction& contraction, const Device& device = gc200()) {
  return plan_contraction(device, contraction).terms.total();
}

TEST(CostModel, ConstantsHaveSourcesAndFewAreFitted) {
  int fitted = 0;
  for (const ConstantRow& row : constant_rows()) {
    EXPECT_FALSE(row.source.empty()) << row.name;
    EXPECT_FALSE(row.unit.empty()) << row.name;
    EXPECT_EQ(constants().*row.member, row.value) << row.name;
    fitted += row.fitted;
  }
  EXPECT_LE(fitted, 15);
}

TEST(CostModel, LargerProductsTakeLonger) {
  double last = 0;
  for (int64_t rows = 16; rows <= 65536; rows *= 4) {
    const double cycles = cycles_of_plan(square_product(rows, 1024, 1024));
    EXPECT_GT(cycles, last) << rows;
    last = cycles;
  }
}

TEST(CostModel, AnUnfilledMatrixUnitCostsAsAFilledOne) {
  const double filled = plan_contraction(gc200(), square_product(4096, 16, 16)).terms.arithmetic;
  EXPECT_EQ(plan_contraction(gc200(), square_product(4096, 5, 16)).terms.arithmetic, filled);
  EXPECT_EQ(plan_contraction(gc200(), square_product(4096, 16, 3)).terms.arithmetic, filled);
}

TEST(CostModel, NoProductIsFasterThanThePeak) {
  for (const Device& device : all_devices()) {
    for (const bool half : {true, false}) {
      for (const int64_t size : {1, 3, 64, 1000, 5000}) {
        const Contraction product = square_product(size, size, size, half);
        const double macs = half ? device.half_macs_per_cycle : device.float_macs_per_cycle;
        const double peak = product.flops() / (2 * macs * device.tiles);
        EXPECT_GE(plan_contraction(device, product).terms.arithmetic, 0.999 * peak);
      }
    }
  }
}

TEST(CostModel, APlanUsesNoMoreTilesThanThereAre) {
  for (const int64_t size : {1, 17, 300, 4000}) {
    for (const int64_t groups : {1, 7, 4000}) {
      Contraction product = square_product(size, 200, size);
      product.groups = groups;
      const ContractionPlan plan = plan_contraction(gc200(), product);
      EXPECT_LE(plan.groups * plan.rows * plan.inner * plan.outer, gc200().tiles);
    }
  }
}

TEST(CostModel, LessMemoryTakesMoreRounds) {
  for (const bool half : {true, false}) {
    Contraction product = square_product(4096, 4096, 4096, half);
    const ContractionPlan whole = plan_contraction(gc200(), product);
    EXPECT_EQ(whole.rounds, 1);
    ContractionPlan last = whole;
    for (int64_t memory = gc200().sram_per_tile; memory >= 1024; memory /= 2) {
      product.tile_memory = memory;
      const ContractionPlan plan = plan_contraction(gc200(), product);
      EXPECT_LE(plan.tile_bytes, memory);
      EXPECT_GE(plan.terms.total(), last.terms.total());
      EXPECT_GE(plan.terms.total(), whole.terms.total());
      last = plan;
    }
    EXPECT_GT(last.rounds, 100);
  }
}

TEST(CostModel, APlanNeedsMemoryOnTheTilesThatWork) {
  const ContractionPlan one = plan_contraction(gc200(), square_product(8, 16, 16));
  EXPECT_LE(one.rows, 8);
  EXPECT_EQ(one.temporary_bytes(), one.tile_bytes * one.groups * one.rows * one.inner * one.outer);
  Contraction product = square_product(4096, 4096, 4096);
  int64_t last = gc200().sram();
  for (const int64_t memory : {300'000, 100'000, 30'000}) {
    product.tile_memory = memory;
    const int64_t bytes = plan_contraction(gc200(), product).temporary_bytes();
    EXPECT_LE(bytes, memory * gc200().tiles);
    EXPECT_LT(bytes, last);
    last = bytes;
  }
}

TEST(CostModel, AChangeOfLayoutMovesAnElementPerTileAndCycle) {
  Contraction product = square_product(1024, 1024, 1024);
  const Terms before = plan_contraction(gc200(), product).terms;
  product.rearranged = int64_t{gc200().tiles} * 1000;
  const Terms after = plan_contraction(gc200(), product).terms;
  EXPECT_DOUBLE_EQ(after.exchange - before.exchange, 1000 * (1 + 2 / constants().exchange_rate));
  EXPECT_DOUBLE_EQ(after.sync - before.sync, constants().sync);
  EXPECT_EQ(after.arithmetic, before.arithmetic);
}

TEST(CostModel, ReductionsAndMeasuredWorkAddToAnOp) {
  const Work plain{.flops = 1e6, .elements = 1e6};
  Work more = plain;
  more.reductions = 2;
  more.measured_cycles = 3;
  const Terms before = work_terms(gc200(), plain), after = work_terms(gc200(), more);
  EXPECT_DOUBLE_EQ(after.vertex - before.vertex, 2 * constants().reduction);
  EXPECT_DOUBLE_EQ(after.arithmetic - before.arithmetic, 3 * std::ceil(1e6 / gc200().tiles));
}

TEST(CostModel, EachStepTakesALaunchAnExchangeAndTwoSyncs) {
  const Work one{.flops = 1e6, .moved = 100, .reductions = 1, .elements = 1e6};
  Work more = one;
  more.steps = 11;
  const Terms before = work_terms(gc200(), one), after = work_terms(gc200(), more);
  const Constants& k = constants();
  EXPECT_DOUBLE_EQ(after.vertex - before.vertex, 10 * (k.launch + k.reduction));
  EXPECT_DOUBLE_EQ(after.exchange - before.exchange, 10 * k.exchange_latency);
  EXPECT_DOUBLE_EQ(after.sync - before.sync, 20 * k.sync);
  EXPECT_GE(after.arithmetic, before.arithmetic);
}

TEST(CostModel, AStepKeepsATileBusyWithAtLeastOneElement) {
  const Work work{.flops = 1000, .steps = 1000, .elements = 1000};
  const Work whole{.flops = 1000, .elements = 1000};
  EXPECT_DOUBLE_EQ(work_terms(gc200(), work).arithmetic,
                   1000 * work_terms(gc200(), whole).arithmetic);
}

TEST(CostModel, RowsStayOnATileWhereThatIsFaster) {
  const Work many{.flops = 1e6, .steps = 7, .row = 100, .elements = 1e6};
  const Work made = divided_work(gc200(), many);
  EXPECT_EQ(made.steps, 1);
  EXPECT_EQ(made.row, 100);
  const Work long_one{.flops = 1e6, .steps = 20, .row = 1e6, .elements = 1e6};
  const Work spread = divided_work(gc200(), long_one);
  EXPECT_EQ(spread.steps, 20);
  EXPECT_EQ(spread.row, 0);
  for (const Work& work : {many, long_one}) {
    Work other = work;
    (divided_work(gc200(), work).steps == 1 ? other.row : other.steps) = 0;
    other.steps = std::max(other.steps, 1.0);
    EXPECT_LE(work_terms(gc200(), divided_work(gc200(), work)).total(),
              work_terms(gc200(), other).total());
  }
}

TEST(CostModel, TilesForIoDoNotCompute) {
  double last = 0;
  for (const int64_t tiles : {0, 96, 192, 1000}) {
    Contraction product = square_product(4096, 4096, 4096);
    product.io_tiles = tiles;
    const ContractionPlan plan = plan_contraction(gc200(), product);
    EXPECT_LE(plan.groups * plan.rows * plan.inner * plan.outer, gc200().tiles - tiles);
    EXPECT_GT(plan.terms.total(), last);
    last = plan.terms.total();
    const Work work{.bytes = 8e6, .elements = 1e6, .io_tiles = tiles};
    EXPECT_GE(work_terms(gc200(), work).total(),
              work_terms(gc200(), {.bytes = 8e6, .elements = 1e6}).total());
  }
}

TEST(CostModel, WiderPartialsExchangeMore) {
  Contraction product = square_product(256, 4096, 256);
  const double narrow = cycles_of_plan(product);
  product.partial_bytes = 4;
  EXPECT_GT(cycles_of_plan(product), narrow);
}

TEST(CostModel, AnEmptyProductIsFree) { EXPECT_EQ(cycles_of_plan(square_product(0, 16, 16)), 0); }

TEST(CostModel, ElementwiseWorkGrowsWithElements) {
  const auto cycles = [](double elements, bool half) {
    return work_terms(gc200(), {.flops = elements, .elements = elements, .half = half}).total();
  };
  EXPECT_GT(cycles(1e7, true), cycles(1e6, true));
  EXPECT_GT(cycles(1e7, false), cycles(1e7, true));
}

TEST(CostModel, ElementwiseWorkExchangesNothing) {
  const Terms terms = work_terms(gc200(), {.flops = 1e6, .elements = 1e6});
  EXPECT_EQ(terms.exchange, 0);
  EXPECT_EQ(terms.sync, constants().sync);
}

TEST(CostModel, TransfersOffTheChipAreSlowerOnSlowerPaths) {
  const double bytes = 1e8;
  EXPECT_LT(link_cycles(gc200(), bytes), streaming_cycles(gc200(), bytes));
  EXPECT_LT(link_cycles(gc200(), bytes), host_cycles(gc200(), bytes));
  EXPECT_LT(link_cycles(gc200(), bytes), pair_cycles(gc200(), bytes));
  EXPECT_LT(pair_cycles(gc200(), bytes), streaming_cycles(gc200(), bytes));
  EXPECT_LT(link_cycles(gc200(), bytes), gateway_cycles(gc200(), bytes));
}

TEST(CostModel, CyclesStayWithinSixtyFourBits) {
  EXPECT_LE(whole_cycles(1e300), int64_t{1} << 42);
  EXPECT_EQ(whole_cycles(-1), 0);
}

}  // namespace
}  // namespace poptorch::target
