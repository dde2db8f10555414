// The table of micro-ops that tile programs consist of: one row per op and register class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/attr.hpp"

namespace poptorch::ir {
struct OpDef;
}

namespace poptorch::emulator {

// The form of a dtype's elements in registers; other dtypes are not held. kF64 is for the
// hyper-parameters of updates: its only arithmetic is increments.
enum class RegisterClass : uint8_t { kF32, kI32, kI64, kF64, kNone };
RegisterClass register_class(ir::DType dtype);
inline int64_t register_bytes(RegisterClass c) {
  return c == RegisterClass::kI64 || c == RegisterClass::kF64 ? 8 : 4;
}

constexpr int kMaxSources = 10;
constexpr int kMaxResults = 4;

// The form of the elements of a register: that of its class, or that of memory. Ops compute with
// words: floats for half types, 0 or 1 for bools. kOne is a single word for all elements.
enum class Held : uint8_t { kWord, kHalf, kBfloat, kBool, kOne };
constexpr int64_t bytes_of(Held held) {  // between elements
  switch (held) {
    case Held::kWord:
      return 4;
    case Held::kHalf:
    case Held::kBfloat:
      return 2;
    case Held::kBool:
      return 1;
    case Held::kOne:
      return 0;
  }
  return 0;
}

// How the first sources and the result of a micro-op are held.
struct HeldAs {
  Held sources[4] = {};
  Held result = Held::kWord;
};

// One micro-op at run time: pointers to tiles of registers; absent operands are nullptr.
struct MicroArgs {
  // The pointers are uninitialised at first: every op of every tile makes a MicroArgs.
  void* dst[kMaxResults];
  const void* src[kMaxSources];
  const double* immediates;
  const HeldAs* held;
  // The index of the first element and the key of the words, for steps that round at random. The
  // indices of neighbours differ by `index_step`; only some steps support another number than 1.
  uint32_t index, index_step, key[2];
  // The elements of a row, if such a step has several, of at most kMostInRows elements. The indices
  // of their first elements are neighbours.
  int64_t row = 0;

  MicroArgs() {}

  template <typename T>
  const T* in(int i) const {
    return static_cast<const T*>(src[i]);
  }
  template <typename T>
  T* out(int i = 0) const {
    return static_cast<T*>(dst[i]);
  }
  // Returns a hyper-parameter of an update.
  double number(int i) const { return *in<double>(i); }
  float imm(int i) const { return static_cast<float>(immediates[i]); }
};
constexpr int64_t kMostInRows = 2048;
using MicroFn = void (*)(const MicroArgs&, int64_t n);

// The same micro-op with one source that is an unstored product. Pointers are to the first element
// of the product's rows.
struct NarrowProduct;  // gemm.hpp
struct ProductForm {
  void (*run)(const MicroArgs&, const NarrowProduct&) = nullptr;  // nullptr: no such form
  int source = -1;  // the source that the product replaces; not set in MicroArgs
};

// The same micro-op for a tensor of halves: source 0, and with it result 0, hold halves as in
// memory.
struct HalfForm {
  MicroFn fn = nullptr;
  // Rounds the product to source 0's type where the source that it replaces is held as halves.
  ProductForm product = {};
};
// The forms by the type of source 0, f16 or bf16, and by whether the source `gradient` has the same
// type and is held in the same way.
struct HalfForms {
  HalfForm form[2][2];
  int gradient = -1;
  HalfForm at_random[2] = {};  // rounded at random, by a gradient of floats
};

// The arguments of a look-up in the table by op().
struct MicroQuery {
  const ir::OpDef& def;
  const ir::Attrs& attrs;
  const std::vector<ir::DType>& operands;  // of present operands
  const std::vector<ir::DType>& results;

  const ir::Attr& attr(ir::Symbol name) const;  // given, or the row's default
};

struct MicroRow {
  const char* op;
  RegisterClass source;  // of the operands (but select's condition and f64 hyper-parameters)
  RegisterClass result;
  MicroFn fn;
  // `immediates` returns numbers from the attributes; `serves`, whether the row supports them at
  // all.
  std::vector<double> (*immediates)(const MicroQuery&) = nullptr;
  bool (*serves)(const MicroQuery&) = nullptr;
  ProductForm product = {};
  const HalfForms* halves = nullptr;
  // The same where sources and results may be held as in memory: see HeldAs.
  MicroFn held_fn = nullptr;
  // The same with a result that is held as in memory, and rounded at random to the half type.
  MicroFn random_fn = nullptr;
};

// Returns nullptr when the table does not have such a micro-op.
const MicroRow* find_micro_row(const MicroQuery& query);
std::vector<std::string> micro_op_names();  // sorted, with cast

// These convert memory ↔ register, and between and within register classes.
MicroFn load_fn(ir::DType dtype);   // src[0] dense memory → dst[0] register
MicroFn store_fn(ir::DType dtype);  // src[0] register → dst[0] dense memory
MicroFn cast_fn(ir::DType from, ir::DType to);
MicroFn copy_held_fn();  // floats of any form: see HeldAs
// Brings a register back into the range of a narrow dtype (f16, bf16, i8, ...); nullptr when the
// dtype does not need it.
MicroFn narrow_fn(ir::DType dtype);
// The same for f16 and bf16, at random: see reference/rounding_bits.hpp.
MicroFn round_at_random_fn(ir::DType dtype);

}  // namespace poptorch::emulator
