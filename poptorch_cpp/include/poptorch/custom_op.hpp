// Declares custom ops in a library; poptorch.custom_op finds them once the library is loaded.
//
//   const poptorch::custom::Register square({
//       .domain = "com.acme", .name = "Square",
//       .infer = [](const Call& call) { return std::vector{call.input(0)}; },
//       .compute = [](const Call& call) { ... call.in<float>(0) ... call.out<float>(0) ... },
//       .gradient = Gradient{.name = "SquareGrad", .inputs = {input(0), gradient(0)}, .of = {0}}});
//
// Needs only the standard library. Link poptorch::custom_op.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "custom_op_abi.hpp"

namespace poptorch::custom {

enum class DType : int32_t {
  Bool,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt8,
  UInt16,
  UInt32,
  UInt64,
  Float8_143,
  Float8_152,
  Half,
  BFloat16,
  Float,
  Double,
};

struct Type {
  DType dtype = DType::Float;
  std::vector<int64_t> shape;

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    return count;
  }
  bool operator==(const Type&) const = default;
};

// The alternatives are in the order of the POPTORCH_CUSTOM_ numbers.
using Value = std::variant<float, std::vector<float>, int64_t, std::vector<int64_t>, std::string,
                           std::vector<std::string>>;

struct Attribute {
  std::string name;
  Value otherwise;  // its alternative is the attribute's type
  bool is_required = false;
};

// Declares an attribute that every use must give: attribute<float>("alpha").
template <typename T>
Attribute attribute(std::string name) {
  return {std::move(name), Value(T()), true};
}
// Declares an attribute with a default, which gives its type: attribute("alpha", 0.01f).
inline Attribute attribute(std::string name, Value otherwise) {
  return {std::move(name), std::move(otherwise), false};
}

// One use of an op, as infer, cost and compute receive it. It is valid only during their call.
class Call {
 public:
  explicit Call(const PoptorchCustomCall& call) : call_(call) {}

  int inputs() const { return call_.input_count; }
  int outputs() const { return call_.output_count; }
  Type input(int i) const { return type(call_.inputs, i, call_.input_count, "input"); }
  Type output(int i) const { return type(call_.outputs, i, call_.output_count, "output"); }

  // Returns an attribute of the op. Throws std::invalid_argument unless the op declares `name` with
  // the type T.
  template <typename T>
  T get(const std::string& name) const {
    constexpr int32_t kType = static_cast<int32_t>(Value(T()).index());
    for (int32_t i = 0; i < call_.attr_count; ++i) {
      if (name == call_.attrs[i].name && call_.attrs[i].type == kType) {
        return values<T>(call_.attrs[i]);
      }
    }
    throw std::invalid_argument("the op declares no attribute '" + name + "' of this type");
  }

  // Return dense row-major elements. T is the C++ type of an element: uint16_t (the bits) for Half
  // and BFloat16, uint8_t for Float8. Throw std::logic_error outside of compute, and
  // std::invalid_argument for another T.
  template <typename T>
  const T* in(int i) const {
    return static_cast<const T*>(buffer<T>(input(i), i));
  }
  template <typename T>
  T* out(int i) const {
    return static_cast<T*>(buffer<T>(output(i), call_.input_count + i));
  }

  // Return, in compute, the number of this replica (from 0) and how many replicas run the program.
  int replica() const { return call_.replica; }
  int replicas() const { return call_.replica_count; }

 private:
  static Type type(const PoptorchCustomType* types, int i, int count, const char* what) {
    if (i < 0 || i >= count) {
      throw std::out_of_range(std::string("there is no ") + what + " " + std::to_string(i));
    }
    return {static_cast<DType>(types[i].dtype), {types[i].shape, types[i].shape + types[i].rank}};
  }

  template <typename T>
  static T values(const PoptorchCustomAttr& attr) {
    if constexpr (std::is_same_v<T, float>) return attr.floats[0];
    if constexpr (std::is_same_v<T, int64_t>) return attr.ints[0];
    if constexpr (std::is_same_v<T, std::string>) return attr.strings[0];
    if constexpr (std::is_same_v<T, std::vector<float>>) {
      return T(attr.floats, attr.floats + attr.count);
    }
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      return T(attr.ints, attr.ints + attr.count);
    }
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      return T(attr.strings, attr.strings + attr.count);
    }
  }

  template <typename T>
  static bool holds(DType dtype) {
    if (dtype == DType::Half || dtype == DType::BFloat16) return std::is_same_v<T, uint16_t>;
    if (dtype == DType::Float8_143 || dtype == DType::Float8_152) return std::is_same_v<T, uint8_t>;
    return dtype == (std::is_same_v<T, bool>       ? DType::Bool
                     : std::is_same_v<T, int8_t>   ? DType::Int8
                     : std::is_same_v<T, int16_t>  ? DType::Int16
                     : std::is_same_v<T, int32_t>  ? DType::Int32
                     : std::is_same_v<T, int64_t>  ? DType::Int64
                     : std::is_same_v<T, uint8_t>  ? DType::UInt8
                     : std::is_same_v<T, uint16_t> ? DType::UInt16
                     : std::is_same_v<T, uint32_t> ? DType::UInt32
                     : std::is_same_v<T, uint64_t> ? DType::UInt64
                     : std::is_same_v<T, float>    ? DType::Float
                                                   : DType::Double);
  }

  template <typename T>
  void* buffer(const Type& type, int i) const {
    if (!call_.buffers) throw std::logic_error("elements are available only in compute");
    if (!holds<T>(type.dtype)) {
      throw std::invalid_argument(
          "a tensor is read as elements of a type that it does not have (number " +
          std::to_string(static_cast<int>(type.dtype)) + " of poptorch::custom::DType)");
    }
    return call_.buffers[i];
  }

  const PoptorchCustomCall& call_;
};

// An input of a gradient op: an input, an output, or an output's gradient of the forward op.
struct Operand {
  int32_t kind, index;
};
inline Operand input(int i) { return {POPTORCH_CUSTOM_OF_INPUT, i}; }
inline Operand output(int i) { return {POPTORCH_CUSTOM_OF_OUTPUT, i}; }
inline Operand gradient(int i) { return {POPTORCH_CUSTOM_OF_GRADIENT, i}; }

// A custom op that computes gradients. It receives those of the forward op's attributes that it
// declares.
struct Gradient {
  std::string domain = {};  // empty: that of the forward op
  std::string name;
  int version = 0;  // 0: that of the forward op
  std::vector<Operand> inputs;
  std::vector<int32_t> of;  // for each of its outputs, the input of the forward op
};

// The work of one use. The cost model turns it into cycles.
struct Cost {
  double flops = 0;
  double bytes = 0;  // read and written
};

// The declaration of a custom op. An exception from one of its functions ends the compilation or
// the run as poptorch.Error. `infer` and `compute` depend only on the call, and run on several
// threads at once.
struct Op {
  std::string domain;
  std::string name;
  int version = 1;
  int inputs = 1;
  int outputs = 1;
  std::vector<Attribute> attributes = {};
  std::function<std::vector<Type>(const Call&)> infer;  // types of the outputs
  std::function<void(const Call&)> compute;             // writes every element of the outputs
  std::function<Cost(const Call&)> cost = {};           // absent: one operation for each element
  std::optional<Gradient> gradient = {};
  // Inputs that arrive as their sums over all replicas. Their gradients are summed too.
  std::vector<int32_t> summed_inputs = {};
};

// Registers an op. Make it a static object of a library.
class Register {
 public:
  explicit Register(Op op) {
    auto declaration = std::make_unique<Declaration>(std::move(op));
    if (declaration->add()) declaration.release();
  }

 private:
  // Is never destroyed unless it is refused, because executables keep pointers to it.
  class Declaration {
   public:
    explicit Declaration(Op op) : op_(std::move(op)) {
      lists_.resize(op_.attributes.size());
      for (size_t i = 0; i < op_.attributes.size(); ++i) declare(op_.attributes[i], lists_[i]);
      if (op_.gradient) declare_gradient(*op_.gradient);
    }

    bool add() {
      table_ = {.abi = POPTORCH_CUSTOM_OP_ABI,
                .version = op_.version,
                .domain = op_.domain.c_str(),
                .name = op_.name.c_str(),
                .self = this,
                .input_count = op_.inputs,
                .output_count = op_.outputs,
                .attr_count = static_cast<int32_t>(attrs_.size()),
                .attrs = attrs_.data(),
                .infer = op_.infer ? infer : nullptr,
                .cost = op_.cost ? cost : nullptr,
                .compute = op_.compute ? compute : nullptr,
                .gradient = op_.gradient ? &gradient_ : nullptr,
                .summed_count = static_cast<int32_t>(op_.summed_inputs.size()),
                .summed_inputs = op_.summed_inputs.data()};
      return poptorch_register_custom_op(&table_) == 0;
    }

   private:
    void declare(const Attribute& attribute, std::vector<const char*>& texts) {
      const Value& value = attribute.otherwise;
      PoptorchCustomAttr row{.name = attribute.name.c_str(),
                             .type = static_cast<int32_t>(value.index()),
                             .is_required = attribute.is_required,
                             .count = 1,
                             .floats = std::get_if<float>(&value),
                             .ints = std::get_if<int64_t>(&value),
                             .strings = nullptr};
      if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
        row.floats = floats->data();
        row.count = static_cast<int64_t>(floats->size());
      } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
        row.ints = ints->data();
        row.count = static_cast<int64_t>(ints->size());
      } else if (const auto* text = std::get_if<std::string>(&value)) {
        texts.push_back(text->c_str());
      } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
        for (const std::string& one : *strings) texts.push_back(one.c_str());
        row.count = static_cast<int64_t>(strings->size());
      }
      row.strings = texts.data();
      attrs_.push_back(row);
    }

    void declare_gradient(const Gradient& gradient) {
      for (const Operand& operand : gradient.inputs) {
        kinds_.push_back(operand.kind);
        indices_.push_back(operand.index);
      }
      gradient_ = {gradient.domain.empty() ? op_.domain.c_str() : gradient.domain.c_str(),
                   gradient.name.c_str(),
                   gradient.version == 0 ? op_.version : gradient.version,
                   static_cast<int32_t>(kinds_.size()),
                   kinds_.data(),
                   indices_.data(),
                   static_cast<int32_t>(gradient.of.size()),
                   gradient.of.data()};
    }

    // Calls `work` and returns 0. If `work` throws, writes the text to `error` and returns 1.
    template <typename Work>
    static int32_t told(char* error, size_t size, const Work& work) {
      try {
        work();
        return 0;
      } catch (const std::exception& failure) {
        std::snprintf(error, size, "%s", failure.what());
      } catch (...) {
        std::snprintf(error, size, "it threw something that is not a std::exception");
      }
      return 1;
    }

    static const Op& of(void* self) { return static_cast<Declaration*>(self)->op_; }

    static int32_t infer(void* self, const PoptorchCustomCall* call,
                         void (*give)(void*, const PoptorchCustomType*), void* to, char* error,
                         size_t size) {
      return told(error, size, [&] {
        for (const Type& type : of(self).infer(Call(*call))) {
          const PoptorchCustomType given{static_cast<int32_t>(type.dtype),
                                         static_cast<int32_t>(type.shape.size()),
                                         type.shape.data()};
          give(to, &given);
        }
      });
    }
    static int32_t cost(void* self, const PoptorchCustomCall* call, double* flops, double* bytes,
                        char* error, size_t size) {
      return told(error, size, [&] {
        const Cost made = of(self).cost(Call(*call));
        *flops = made.flops;
        *bytes = made.bytes;
      });
    }
    static int32_t compute(void* self, const PoptorchCustomCall* call, char* error, size_t size) {
      return told(error, size, [&] { of(self).compute(Call(*call)); });
    }

    Op op_;
    std::vector<PoptorchCustomAttr> attrs_;
    std::vector<std::vector<const char*>> lists_;
    std::vector<int32_t> kinds_, indices_;
    PoptorchCustomGradient gradient_{};
    PoptorchCustomOp table_{};
  };
};

}  // namespace poptorch::custom
