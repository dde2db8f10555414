// The constants of the cost model, in one table with the source of each.
#pragma once

#include <span>
#include <string_view>

namespace poptorch::target {

// The values that the cost model reads. The table in constants.cpp sets them; docs/machine.md
// explains the terms.
struct Constants {
  double sync = 0, launch = 0, exchange_latency = 0, exchange_rate = 0, paired_exchange = 0;
  double sum_rate = 0, reduction = 0, summed_word = 0, random_sample = 0;
  double matrix_floor_half = 0, matrix_floor_float = 0, weight_rate = 0, weight_rate_mk1 = 0;
  double block_mk1 = 0, position_mk1 = 0;
  double kernel_block = 0, kernel_block_mk1 = 0, kernel_position_mk1 = 0, kernel_row = 0;
  double element_factor = 0, vector_issue = 0, slice_start = 0, slice_row = 0, slice_pair = 0;
  double link_efficiency = 0, link_latency = 0, links = 0, links_of_pair = 0, host_latency = 0,
         gateway_latency = 0;
  double streaming_efficiency = 0, streaming_latency = 0;
};

struct ConstantRow {
  std::string_view name;
  double Constants::* member;
  double value;
  std::string_view unit;
  std::string_view source;
  bool fitted = false;  // chosen by benchmarks/fidelity/fit.py
};

std::span<const ConstantRow> constant_rows();
const Constants& constants();

// Returns the constant of that name; UserError with the known names if there is none.
double Constants::* constant_named(std::string_view name);

// Replaces a constant while nothing compiles. The fit needs it.
void replace_constant(std::string_view name, double value);

}  // namespace poptorch::target
