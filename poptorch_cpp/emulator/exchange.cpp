// Implements exchange.hpp.
#include "emulator/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

// Tensors that a sender may be ahead of the receiver.
constexpr size_t kAhead = 2;

template <typename T>
struct Plain {
  using Wide = T;
  static Wide load(const std::byte* data, int64_t i) { return reinterpret_cast<const T*>(data)[i]; }
  static void store(std::byte* data, int64_t i, Wide value) {
    reinterpret_cast<T*>(data)[i] = value;
  }
};

template <double (*Load)(uint16_t), uint16_t (*Store)(double)>
struct Small {
  using Wide = float;
  static Wide load(const std::byte* data, int64_t i) {
    return static_cast<float>(Load(reinterpret_cast<const uint16_t*>(data)[i]));
  }
  static void store(std::byte* data, int64_t i, Wide value) {
    reinterpret_cast<uint16_t*>(data)[i] = Store(value);
  }
};

// Whole numbers wrap.
template <typename T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

template <typename T>
T sum_of(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}

template <typename T>
T product_of(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}

// Whichever of both is no number is the result, as in torch.
template <typename T>
T larger_of(T a, T b) {
  return b != b || a < b ? b : a;
}

template <typename T>
T smaller_of(T a, T b) {
  return b != b || b < a ? b : a;
}

template <typename Format, typename Combine>
void reduce(const std::vector<const std::byte*>& operands, std::byte* result, int64_t elements,
            bool mean, bool square, Combine combine) {
  using T = typename Format::Wide;
  const auto ranks = static_cast<T>(operands.size());
  for (int64_t i = 0; i < elements; ++i) {
    auto load = [&](size_t r) {
      const T x = Format::load(operands[r], i);
      return square ? product_of(x, x) : x;
    };
    T sum = load(0);
    for (size_t r = 1; r < operands.size(); ++r) sum = combine(sum, load(r));
    Format::store(result, i, mean ? static_cast<T>(sum / ranks) : sum);
  }
}

template <typename Format>
void reduce_as(const std::string& how, const std::vector<const std::byte*>& operands,
               std::byte* result, int64_t elements) {
  using T = typename Format::Wide;
  auto run = [&](auto combine) {
    reduce<Format>(operands, result, elements, how == "mean", how == "square_add", combine);
  };
  if (how == "sum" || how == "mean" || how == "square_add") {
    run([](T a, T b) { return sum_of(a, b); });
  } else if (how == "max") {
    run([](T a, T b) { return larger_of(a, b); });
  } else if (how == "min") {
    run([](T a, T b) { return smaller_of(a, b); });
  } else if (how == "mul") {
    run([](T a, T b) { return product_of(a, b); });
  } else if (how == "and") {
    run([](T a, T b) { return static_cast<T>(a != 0 && b != 0); });
  } else if (how == "or") {
    run([](T a, T b) { return static_cast<T>(a != 0 || b != 0); });
  } else {
    throw support::UnsupportedError(
        "[collective] there is no reduction '" + how +
        "'. Use sum, mean, mul, min, max, and, or, square_add or local.");
  }
}

}  // namespace

bool Channel::send(const std::byte* data, bool even_if_full) {
  std::lock_guard lock(mutex_);
  if (count_ >= kAhead && !even_if_full) return false;
  if (empty_.empty()) {
    empty_.push_back(slots_.size());
    slots_.emplace_back(bytes_, "a tensor on its way between IPUs");
  }
  const size_t slot = empty_.back();
  empty_.pop_back();
  std::memcpy(slots_[slot].data(), data, static_cast<size_t>(bytes_));
  if (count_ == full_.size()) {
    std::rotate(full_.begin(), full_.begin() + static_cast<std::ptrdiff_t>(first_), full_.end());
    first_ = 0;
    full_.push_back(slot);
  } else {
    full_[(first_ + count_) % full_.size()] = slot;
  }
  ++count_;
  return true;
}

bool Channel::receive(std::byte* data) {
  std::lock_guard lock(mutex_);
  if (count_ == 0) return false;
  const size_t slot = full_[first_];
  std::memcpy(data, slots_[slot].data(), static_cast<size_t>(bytes_));
  first_ = (first_ + 1) % full_.size();
  --count_;
  empty_.push_back(slot);
  return true;
}

void Channel::clear() {
  for (; count_ > 0; --count_, first_ = (first_ + 1) % full_.size()) {
    empty_.push_back(full_[first_]);
  }
}

int64_t Barrier::arrive() {
  std::lock_guard lock(mutex_);
  const int64_t ticket = round_;
  if (++arrived_ == members_) {
    arrived_ = 0;
    ++round_;
  }
  return ticket;
}

bool Barrier::is_open(int64_t ticket) {
  std::lock_guard lock(mutex_);
  return round_ > ticket;
}

Collective::Collective(const CollectiveSpec& spec, int members)
    : spec_(spec),
      operands_(static_cast<size_t>(members)),
      results_(static_cast<size_t>(members)) {}

int64_t Collective::arrive(int rank, const std::byte* operand, std::byte* result) {
  std::lock_guard lock(mutex_);
  const int64_t ticket = round_;
  operands_[static_cast<size_t>(rank)] = operand;
  results_[static_cast<size_t>(rank)] = result;
  if (++arrived_ == static_cast<int>(operands_.size())) {
    compute();
    arrived_ = 0;
    ++round_;
  }
  return ticket;
}

bool Collective::is_done(int64_t ticket) {
  std::lock_guard lock(mutex_);
  return round_ > ticket;
}

void Collective::compute() {
  const auto ranks = static_cast<int64_t>(operands_.size());
  const int64_t bytes = spec_.elements * ir::size_of(spec_.dtype);
  if (spec_.op == "all_gather") {
    for (std::byte* result : results_) {
      for (int64_t r = 0; r < ranks; ++r) {
        std::memcpy(result + r * bytes, operands_[static_cast<size_t>(r)],
                    static_cast<size_t>(bytes));
      }
    }
  } else if (spec_.op == "all_to_all") {
    const int64_t row = bytes / ranks;
    for (int64_t to = 0; to < ranks; ++to) {
      for (int64_t from = 0; from < ranks; ++from) {
        std::memcpy(results_[static_cast<size_t>(to)] + from * row,
                    operands_[static_cast<size_t>(from)] + to * row, static_cast<size_t>(row));
      }
    }
  } else if (spec_.reduce == "local") {
    const int64_t part = spec_.op == "reduce_scatter" ? bytes / ranks : bytes;
    for (int64_t r = 0; r < ranks; ++r) {
      const auto rank = static_cast<size_t>(r);
      const int64_t start = part == bytes ? 0 : r * part;
      std::memcpy(results_[rank], operands_[rank] + start, static_cast<size_t>(part));
    }
  } else if (spec_.op == "reduce_scatter") {
    const int64_t part = bytes / ranks;
    for (int64_t r = 0; r < ranks; ++r) {
      std::vector<const std::byte*> parts;
      for (const std::byte* operand : operands_) parts.push_back(operand + r * part);
      reduce_ranks(spec_.dtype, spec_.reduce, parts, results_[static_cast<size_t>(r)],
                   spec_.elements / ranks);
    }
  } else {
    reduce_ranks(spec_.dtype, spec_.reduce, operands_, results_[0], spec_.elements);
    for (int64_t r = 1; r < ranks; ++r) {
      std::memcpy(results_[static_cast<size_t>(r)], results_[0], static_cast<size_t>(bytes));
    }
  }
}

int rank_in_group(int replica, int size, int stride) {
  if (size == 0) return replica;
  return replica / stride % size;
}

void reduce_ranks(DType dtype, const std::string& op, const std::vector<const std::byte*>& operands,
                  std::byte* result, int64_t elements) {
  switch (dtype) {
    case DType::kF32:
      return reduce_as<Plain<float>>(op, operands, result, elements);
    case DType::kF64:
      return reduce_as<Plain<double>>(op, operands, result, elements);
    case DType::kF16:
      return reduce_as<Small<ir::from_half_bits, ir::to_half_bits>>(op, operands, result, elements);
    case DType::kBF16:
      return reduce_as<Small<ir::from_bfloat16_bits, ir::to_bfloat16_bits>>(op, operands, result,
                                                                            elements);
    case DType::kI32:
      return reduce_as<Plain<int32_t>>(op, operands, result, elements);
    case DType::kU32:
      return reduce_as<Plain<uint32_t>>(op, operands, result, elements);
    case DType::kI64:
      return reduce_as<Plain<int64_t>>(op, operands, result, elements);
    case DType::kI16:
      return reduce_as<Plain<int16_t>>(op, operands, result, elements);
    case DType::kI8:
      return reduce_as<Plain<int8_t>>(op, operands, result, elements);
    case DType::kBool:
      return reduce_as<Plain<bool>>(op, operands, result, elements);
    case DType::kU8:
      return reduce_as<Plain<uint8_t>>(op, operands, result, elements);
    default:
      throw support::UnsupportedError("[collective] there is no reduction of " +
                                      std::string(ir::name(dtype)) + ". Cast it.");
  }
}

}  // namespace poptorch::emulator
