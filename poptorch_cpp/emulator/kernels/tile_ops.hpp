// The table of micro-ops that tile programs are made of: one row an op and register class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/kernels/isa.hpp"
#include "ir/attr.hpp"

namespace poptorch::ir {
struct OpDef;
}

namespace poptorch::emulator {

// How elements of a dtype are held in registers. Everything else is not held.
// kF64 is for the hyper-parameters of updates: no arithmetic but increments.
enum class RegisterClass : uint8_t { kF32, kI32, kI64, kF64, kNone };
RegisterClass register_class(ir::DType dtype);
inline int64_t register_bytes(RegisterClass c) {
  return c == RegisterClass::kI64 || c == RegisterClass::kF64 ? 8 : 4;
}

constexpr int kMaxSources = 10;
constexpr int kMaxResults = 4;

// One micro-op at run: pointers to tiles of registers; absent operands are nullptr.
struct MicroArgs {
  // Left as they are until set: one is made for every op of every tile.
  void* dst[kMaxResults];
  const void* src[kMaxSources];
  const double* immediates;

  MicroArgs() {}

  template <typename T>
  const T* in(int i) const {
    return static_cast<const T*>(src[i]);
  }
  template <typename T>
  T* out(int i = 0) const {
    return static_cast<T*>(dst[i]);
  }
  // A hyper-parameter of an update.
  double number(int i) const { return *in<double>(i); }
  float imm(int i) const { return static_cast<float>(immediates[i]); }
};
using MicroFn = void (*)(const MicroArgs&, int64_t n);

// The same micro-op where one of its sources is a product that nobody stores: pointers are to the
// first element of the product's rows.
struct NarrowProduct;  // narrow_product.hpp
struct ProductForm {
  void (*run)(const MicroArgs&, const NarrowProduct&) = nullptr;  // nullptr: there is none
  int source = -1;  // the one that the product stands for; not set in MicroArgs
};

// What op() asks the table for.
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
  // Numbers from the attributes, and whether the row serves these attributes at all.
  std::vector<double> (*immediates)(const MicroQuery&) = nullptr;
  bool (*serves)(const MicroQuery&) = nullptr;
  ProductForm product = {};
};

// nullptr: no micro-op.
const MicroRow* find_micro_row(const MicroQuery& query);
std::vector<std::string> micro_op_names();  // sorted, with cast

void add_update_rows(std::vector<MicroRow>& rows);
// Of wide/, whose files are compiled for several instruction sets.
template <Isa isa>
void add_unary_rows(std::vector<MicroRow>& rows);
template <Isa isa>
void add_binary_rows(std::vector<MicroRow>& rows);

// Memory ↔ register, and the conversions between and within register classes.
MicroFn load_fn(ir::DType dtype);   // src[0] dense memory → dst[0] register
MicroFn store_fn(ir::DType dtype);  // src[0] register → dst[0] dense memory
MicroFn cast_fn(ir::DType from, ir::DType to);
// Brings a register back into the range of a narrow dtype (f16, bf16, i8, ...); nullptr: nothing to
// do.
MicroFn narrow_fn(ir::DType dtype);

}  // namespace poptorch::emulator
