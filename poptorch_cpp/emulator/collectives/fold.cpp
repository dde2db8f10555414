#include "emulator/collectives/fold.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "support/error.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

template <typename T>
struct Plain {
  using Wide = T;
  static constexpr bool kIsPlain = true;
  static Wide load(const std::byte* data, int64_t i) { return reinterpret_cast<const T*>(data)[i]; }
  static void store(std::byte* data, int64_t i, Wide value) {
    reinterpret_cast<T*>(data)[i] = value;
  }
};

template <float (*Load)(uint16_t), uint16_t (*Store)(float)>
struct Small {
  using Wide = float;
  static constexpr bool kIsPlain = false;
  static Wide load(const std::byte* data, int64_t i) {
    return Load(reinterpret_cast<const uint16_t*>(data)[i]);
  }
  static void store(std::byte* data, int64_t i, Wide value) {
    reinterpret_cast<uint16_t*>(data)[i] = Store(value);
  }
};

// Integers wrap on overflow.
template <typename T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

// A mean's divisor has a type that holds any number of operands. A mean of bools is whether any is
// true.
template <typename T>
using Divisor = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int64_t, T>;

struct Sum {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Product {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

struct SquareSum : Sum {};

// If an operand is NaN, the result is NaN, as in torch.
struct Largest {
  template <typename T>
  static T of(T a, T b) {
    return b != b || a < b ? b : a;
  }
};

struct Smallest {
  template <typename T>
  static T of(T a, T b) {
    return b != b || b < a ? b : a;
  }
};

struct And {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(a != 0 && b != 0);
  }
};

struct Or {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(a != 0 || b != 0);
  }
};

// Folds two operands, or a partial result and one operand, without intermediate memory.
template <typename T, typename Combine>
void fold_two(const T* a, const T* b, T* into, int64_t elements, int64_t divisor) {
  if (divisor > 1) {
    const auto by = static_cast<Divisor<T>>(divisor);
#pragma GCC ivdep  // a result overlaps its own operands at most
    for (int64_t i = 0; i < elements; ++i) into[i] = static_cast<T>(Combine::of(a[i], b[i]) / by);
    return;
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < elements; ++i) into[i] = Combine::of(a[i], b[i]);
}

// Folds block by block, so that a block stays in the nearest cache. All operands of a block are
// read before its results are written, which may overlap them.
template <typename Format, typename Combine>
void fold(const Fold::Part& part, std::byte* into, bool is_partial, bool mean, int64_t ranks) {
  using T = typename Format::Wide;
  if constexpr (Format::kIsPlain && !std::is_same_v<Combine, SquareSum>) {
    if (part.operands.size() + (part.before ? 1 : 0) == 2) {
      const auto operand = [&](size_t i) {
        return reinterpret_cast<const T*>(part.operands[i]) + part.first;
      };
      const T* a = part.before ? reinterpret_cast<const T*>(part.before) : operand(0);
      return fold_two<T, Combine>(a, operand(part.before ? 0 : 1), reinterpret_cast<T*>(into),
                                  part.elements, mean && !is_partial ? ranks : 1);
    }
  }
  constexpr int64_t kBlock = 512;
  T sums[kBlock];
  for (int64_t begin = 0; begin < part.elements; begin += kBlock) {
    const int64_t count = std::min(kBlock, part.elements - begin);
    const int64_t first = part.first + begin;
    const auto load = [&](const std::byte* operand, int64_t i) {
      const T x = Format::load(operand, first + i);
      return std::is_same_v<Combine, SquareSum> ? Product::of(x, x) : x;
    };
    size_t next = 0;
    if (part.before) {
      std::memcpy(sums, part.before + begin * static_cast<int64_t>(sizeof(T)),
                  static_cast<size_t>(count) * sizeof(T));
    } else {
      const std::byte* operand = part.operands[next++];
      for (int64_t i = 0; i < count; ++i) sums[i] = load(operand, i);
    }
    for (; next < part.operands.size(); ++next) {
      const std::byte* operand = part.operands[next];
      for (int64_t i = 0; i < count; ++i) sums[i] = Combine::of(sums[i], load(operand, i));
    }
    if (is_partial) {
      std::memcpy(into + begin * static_cast<int64_t>(sizeof(T)), sums,
                  static_cast<size_t>(count) * sizeof(T));
      continue;
    }
    if (mean) {
      const auto divisor = static_cast<Divisor<T>>(ranks);
      for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<T>(sums[i] / divisor);
    }
    for (int64_t i = 0; i < count; ++i) Format::store(into, begin + i, sums[i]);
  }
}

struct Row {
  Fold::Function function = nullptr;
  bool is_plain = false;
  int64_t partial_bytes = 0;
};

template <typename Format>
Fold::Function function_of(Reduction how) {
  switch (how) {
    case Reduction::kSum:
    case Reduction::kMean:
      return fold<Format, Sum>;
    case Reduction::kSquareAdd:
      return fold<Format, SquareSum>;
    case Reduction::kMax:
      return fold<Format, Largest>;
    case Reduction::kMin:
      return fold<Format, Smallest>;
    case Reduction::kMul:
      return fold<Format, Product>;
    case Reduction::kAnd:
      return fold<Format, And>;
    case Reduction::kOr:
      return fold<Format, Or>;
    case Reduction::kLocal:
      break;
  }
  throw support::InternalError("[collective] there is nothing to reduce.");
}

template <typename Format>
Row row_of(Reduction how) {
  return {.function = function_of<Format>(how),
          .is_plain = Format::kIsPlain && how != Reduction::kSquareAdd,
          .partial_bytes = sizeof(typename Format::Wide)};
}

Row row_of(DType dtype, Reduction how) {
  switch (dtype) {
    case DType::kF32:
      return row_of<Plain<float>>(how);
    case DType::kF64:
      return row_of<Plain<double>>(how);
    case DType::kF16:
      return row_of<Small<support::from_half, support::to_half>>(how);
    case DType::kBF16:
      return row_of<Small<support::from_bfloat16, support::to_bfloat16>>(how);
    case DType::kI32:
      return row_of<Plain<int32_t>>(how);
    case DType::kU32:
      return row_of<Plain<uint32_t>>(how);
    case DType::kI64:
      return row_of<Plain<int64_t>>(how);
    case DType::kI16:
      return row_of<Plain<int16_t>>(how);
    case DType::kI8:
      return row_of<Plain<int8_t>>(how);
    case DType::kBool:
      return row_of<Plain<bool>>(how);
    case DType::kU8:
      return row_of<Plain<uint8_t>>(how);
    default:
      throw support::UnsupportedError("[collective] there is no reduction of " +
                                      std::string(ir::name(dtype)) + ". Cast it.");
  }
}

}  // namespace

Fold::Fold(DType dtype, Reduction how) : mean_(how == Reduction::kMean) {
  const Row row = row_of(dtype, how);
  function_ = row.function;
  is_own_partial_ = row.is_plain;
  partial_bytes_ = row.partial_bytes;
}

void Fold::partial(const Part& part, std::byte* into) const {
  function_(part, into, true, false, 0);
}

void Fold::finish(const Part& part, std::byte* into, int64_t ranks) const {
  function_(part, into, false, mean_, ranks);
}

void reduce_ranks(DType dtype, Reduction how, const std::vector<const std::byte*>& operands,
                  std::byte* result, int64_t elements) {
  Fold(dtype, how)
      .finish({.operands = operands, .elements = elements}, result,
              static_cast<int64_t>(operands.size()));
}

}  // namespace poptorch::emulator
