// Dense buffers of any real dtype as doubles or 64-bit integers, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/type.hpp"

namespace poptorch::reference {

// UnsupportedError for complex types. 8-bit floats: see float8.hpp.
std::vector<double> to_doubles(ir::DType dtype, const std::byte* data, int64_t count);
std::vector<int64_t> to_integers(ir::DType dtype, const std::byte* data, int64_t count);
// Floats round to nearest even, integers truncate, bool is "not zero".
void from_doubles(ir::DType dtype, const double* values, int64_t count, std::byte* data);
// Integers wrap.
void from_integers(ir::DType dtype, const int64_t* values, int64_t count, std::byte* data);
// `value` rounded to what `dtype` can hold.
double rounded_to(ir::DType dtype, double value);

}  // namespace poptorch::reference
