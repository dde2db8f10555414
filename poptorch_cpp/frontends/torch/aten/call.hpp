// A Call gives an aten row one dispatcher call: arguments by index or schema name, and a builder.
// Neither this file nor the rows include torch headers: they compile fast and only handle the IR.
//
// Invariant: a TensorValue has the dtype that torch shows the user (i64 and f64 included); its IR
// value has the narrowed dtype (i32, f32).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"
#include "support/error.hpp"

namespace poptorch::frontend {

// Reports an operator whose result has a shape that depends on its operands' values.
class DynamicShapeError : public support::UnsupportedError {
 public:
  using UnsupportedError::UnsupportedError;
};

using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::Ints;
using ir::Shape;
using ir::Type;
using ir::Val;
using ir::Value;

// Returns the dtype that the device holds for torch's `dtype`: i64 → i32, f64 → f32, c128 → c64.
DType narrow(DType dtype);

struct Number {
  enum class Kind : uint8_t { kBool, kInt, kFloat };
  Kind kind = Kind::kInt;
  double real = 0;
  int64_t integer = 0;  // of kBool and kInt
};

struct TensorValue {
  Value* value = nullptr;  // nullptr: an undefined tensor
  DType dtype = DType::kF32;
  explicit operator bool() const { return value != nullptr; }
  const Shape& shape() const { return value->type().shape; }
  int64_t rank() const { return value->type().rank(); }
};

class Call {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  explicit Call(Builder& builder) : builder_(builder) {}
  virtual ~Call() = default;

  Builder& builder() const { return builder_; }
  // Returns the operator's name for messages, such as "aten::add.Tensor".
  virtual std::string name() const = 0;
  // Returns the argument's index, or kNone when the schema has no argument of this name.
  virtual size_t index_of(std::string_view argument) const = 0;
  virtual bool given(size_t argument) const = 0;  // in the schema and not None
  virtual bool is_tensor(size_t argument) const = 0;
  virtual bool is_list(size_t argument) const = 0;  // of numbers

  // Returns the tensor's current value; null for an undefined tensor.
  TensorValue tensor(size_t argument) { return widened(read(argument)); }
  std::vector<TensorValue> tensors(size_t argument);  // of a list; absent ones are null
  virtual Number number(size_t argument) const = 0;
  virtual Ints ints(size_t argument) const = 0;  // a single int gives a list of one
  virtual std::string text(size_t argument) const = 0;
  virtual DType dtype(size_t argument) const = 0;
  // Returns the contents of an integer tensor, if they are known while the model is traced.
  virtual std::optional<Ints> known(size_t argument) const = 0;

  // Returns the dtype of an arithmetic result of these arguments (tensors or numbers), by torch's
  // rules for dimensioned, 0-d and wrapped operands.
  DType result_type(const std::vector<size_t>& arguments) const;
  virtual DType default_float() const = 0;
  // Replaces the tensor argument's value from here on, through every view of it.
  virtual void write(size_t argument, Value* value) = 0;
  // Returns true while a training trace records gradients.
  virtual bool training() const = 0;
  // Returns whether forward itself may request gradients of results: in inference too.
  virtual bool differentiates() const = 0;
  // Returns the user's line, such as " (model.py:42)", or "".
  virtual std::string place() const = 0;

  // Throw a UserError and an UnsupportedError: `[name] text` with the user's line.
  [[noreturn]] void fail(const std::string& text) const;
  [[noreturn]] void unsupported(const std::string& text) const;
  // Throws an UnsupportedError for an operator that is not supported with any arguments.
  [[noreturn]] void unsupported_op(const std::string& text) const;

  // While `half` (f16 or bf16) is set, a row reads its halves as f32 and computes in f32.
  void widen(std::optional<DType> half) { half_ = half; }
  // Returns the half type that all floating tensors of the call have; nullopt if they differ.
  std::optional<DType> common_half();

  bool given(std::string_view argument) const {
    const size_t i = index_of(argument);
    return i != kNone && given(i);
  }
  TensorValue tensor(std::string_view argument);  // null when absent
  Ints ints(std::string_view argument) const;
  int64_t integer(std::string_view argument) const { return number(at(argument)).integer; }
  int64_t integer(std::string_view argument, int64_t otherwise) const;
  double real(std::string_view argument) const { return number(at(argument)).real; }
  double real(std::string_view argument, double otherwise) const;
  bool flag(std::string_view argument) const { return number(at(argument)).integer != 0; }
  bool flag(std::string_view argument, bool otherwise) const;
  std::string text(std::string_view argument) const { return text(at(argument)); }
  std::optional<DType> dtype(std::string_view argument) const;

  // Returns the argument, a tensor or number, as a value of the narrowed `dtype`.
  Val operand(size_t argument, DType dtype);
  Val cast(Value* value, DType dtype);  // to the narrowed dtype; nothing when it has it
  Val val(Value* value) { return {value, &builder_}; }
  Val emit(std::string_view op, std::vector<Value*> operands, Attrs attrs = {},
           std::vector<Type> stated = {});
  Val scalar(DType dtype, double value);  // of the narrowed dtype
  Val full(const Shape& shape, DType dtype, double value);
  Val reshape(Value* value, const Shape& shape);
  Val transpose(Value* value, const Ints& permutation);
  Val broadcast(Value* value, const Shape& shape);
  Val slice(Value* value, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);

  // Returns `value`, whose gradient is that of `path`.
  Val with_gradient(Val value, Val path);
  // Returns `value`, an element-wise function of the operands whose derivatives are the slopes. All
  // of them broadcast to it.
  struct Slope {
    Val operand, slope;
  };
  Val with_slopes(Val value, const std::vector<Slope>& slopes);
  // Returns x where `mask` is true, and zero, which has a zero gradient, elsewhere.
  Val only_where(Val mask, Val x);

  // Returns indices into `size` places as i32; negative ones are counted from the start instead.
  Val wrapped_indices(const TensorValue& indices, int64_t size);
  // Returns a dimension argument made non-negative; UserError when it is out of range.
  int64_t axis(int64_t dim, int64_t rank) const;
  // Returns the "dim" argument as sorted axes; all of them when it is absent or empty.
  Ints axes(std::string_view argument, int64_t rank) const;

 protected:
  virtual TensorValue read(size_t argument) = 0;
  virtual std::vector<TensorValue> read_list(size_t argument) = 0;
  virtual DType promoted(const std::vector<size_t>& arguments) const = 0;
  virtual size_t argument_count() const = 0;

 private:
  size_t at(std::string_view argument) const;
  TensorValue widened(TensorValue x);
  Builder& builder_;
  std::optional<DType> half_;
};

}  // namespace poptorch::frontend
