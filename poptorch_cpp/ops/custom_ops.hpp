// The custom ops of the process: what libraries registered through the C interface of
// include/poptorch/custom_op_abi.hpp, and their use. Every message names the op.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "include/poptorch/custom_op_abi.hpp"
#include "ir/builder.hpp"

namespace poptorch::ir {
struct Cost;
}

namespace poptorch::ops {

struct CustomId {
  std::string domain, name;
  int64_t version = 1;
  auto operator<=>(const CustomId&) const = default;
};
std::string title(const CustomId& id);  // "'Cube' of domain 'com.acme', version 1"
// Returns the id of the op that comes with the core: it is not registered, and emit_custom knows
// it.
const CustomId& fast_gather_last_dim_id();

// Attributes by name, as users give them: floats, ints and strings, alone or in lists.
using CustomAttrs = std::vector<std::pair<std::string, ir::Attr>>;
// Prints `{"alpha": 0.02, "names": ["a", "b"]}`, sorted by name. UserError for a float beyond
// float32, a name that occurs twice, or a zero byte.
std::string custom_attrs_text(CustomAttrs attrs);
CustomAttrs parse_custom_attrs(const std::string& text);  // UserError

struct CustomOp;  // a declaration

// The gradient op of a use, and the sources of its inputs.
struct CustomGradient {
  CustomId id;
  std::string attributes;  // those of the forward op that the gradient op declares
  struct Operand {
    int32_t kind, index;  // POPTORCH_CUSTOM_OF_...
  };
  std::vector<Operand> inputs;
  std::vector<int32_t> of;  // for each of its outputs: the input of the forward op
};

// One use of an op, on inputs of known types.
class CustomCall {
 public:
  // UserError for an unknown op, one that was refused when it was registered, a wrong number or
  // wrong types of inputs, or wrong attributes. UserError also if its function refuses them or
  // returns types that tensors cannot have.
  CustomCall(const CustomId& id, const std::string& attributes, std::vector<ir::Type> inputs);
  CustomCall(const CustomCall&) = delete;
  CustomCall& operator=(const CustomCall&) = delete;

  const std::vector<ir::Type>& outputs() const { return outputs_; }
  ir::Cost cost() const;
  // Runs on dense row-major buffers: the inputs', then the outputs' (nullptr: not needed). Any
  // thread may call it.
  void run(void* const* buffers, int replica, int replica_count) const;
  std::optional<CustomGradient> gradient() const;
  const std::vector<int32_t>& summed_inputs() const;

 private:
  void bind_attributes(const std::string& text);
  void check_names(const CustomAttrs& given) const;
  void bind_attribute(const std::string& name, ir::AttrType type, const ir::Attr& value);
  void infer();
  [[noreturn]] void fail(const std::string& text) const;
  PoptorchCustomCall described(bool with_outputs) const;

  CustomId id_;
  std::shared_ptr<const CustomOp> op_;
  std::vector<ir::Type> inputs_, outputs_;
  // Owns the memory that `attrs_` points to.
  struct Values {
    std::string name;
    std::vector<float> floats;
    std::vector<int64_t> ints;
    std::vector<std::string> texts;
    std::vector<const char*> strings;
  };
  std::vector<Values> values_;
  std::vector<PoptorchCustomAttr> attrs_;
  std::vector<PoptorchCustomType> input_types_, output_types_;
};

// Adds the op `custom`, after sums over replicas of the inputs that require them.
ir::Op* emit_custom(ir::Builder& builder, const CustomId& id, const std::string& attributes,
                    std::vector<ir::Value*> inputs);

}  // namespace poptorch::ops
