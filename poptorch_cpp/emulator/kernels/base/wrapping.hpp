#pragma once

#include <type_traits>

namespace poptorch::emulator {

// Integer overflow wraps: arithmetic uses the unsigned bits.
template <typename T>
using Wrapping =
    std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

}  // namespace poptorch::emulator
