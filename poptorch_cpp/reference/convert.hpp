// Conversion of dense buffers of any real dtype to doubles or 64-bit integers, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/type.hpp"

namespace poptorch::reference {

// Throws UnsupportedError for complex types. 8-bit floats: see float8.hpp.
std::vector<double> to_doubles(ir::DType dtype, const std::byte* data, int64_t count);
std::vector<int64_t> to_integers(ir::DType dtype, const std::byte* data, int64_t count);
// Rounds floats to nearest even and truncates integers; bool is "not zero".
void from_doubles(ir::DType dtype, const double* values, int64_t count, std::byte* data);
// Wraps integers.
void from_integers(ir::DType dtype, const int64_t* values, int64_t count, std::byte* data);
// Returns `value` rounded to a value of `dtype`.
double rounded_to(ir::DType dtype, double value);

}  // namespace poptorch::reference
