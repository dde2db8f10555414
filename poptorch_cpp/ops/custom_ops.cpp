// Checks and runs uses of registered ops.
#include "ops/custom_ops.hpp"

#include <array>
#include <cmath>

#include "ir/op_def.hpp"
#include "ops/custom_registry.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using ir::AttrType;
using ir::DType;
using support::str;
using support::UserError;

constexpr size_t kErrorSize = 1024;

// Returns whether the device lacks the type, or stores it differently from any C++ type.
bool is_foreign_dtype(DType dtype) {
  return ir::is_complex(dtype) || dtype == DType::kF64 || dtype == DType::kI64 ||
         dtype == DType::kU64;
}

// Names the type as in a sentence.
std::string kind_of(AttrType type) {
  switch (type) {
    case AttrType::kFloat:
      return "a float";
    case AttrType::kFloats:
      return "a list of floats";
    case AttrType::kInt:
      return "an int";
    case AttrType::kInts:
      return "a list of ints";
    case AttrType::kString:
      return "a string";
    default:
      return "a list of strings";
  }
}

bool is_empty_list(const ir::Attr& value) {
  const auto* ints = std::get_if<ir::Ints>(&value);
  return ints && ints->empty();
}

// Returns `value` if it is of the type; an empty list is of every list type.
std::optional<ir::Attr> as_type(const ir::Attr& value, AttrType type) {
  if (ir::type_of(value) == type) return value;
  if (!is_empty_list(value)) return std::nullopt;
  if (type == AttrType::kFloats) return ir::Floats();
  if (type == AttrType::kStrings) return ir::Strings();
  return std::nullopt;
}

int32_t number_of(AttrType type) {
  switch (type) {
    case AttrType::kFloat:
      return POPTORCH_CUSTOM_FLOAT;
    case AttrType::kFloats:
      return POPTORCH_CUSTOM_FLOATS;
    case AttrType::kInt:
      return POPTORCH_CUSTOM_INT;
    case AttrType::kInts:
      return POPTORCH_CUSTOM_INTS;
    case AttrType::kString:
      return POPTORCH_CUSTOM_STRING;
    default:
      return POPTORCH_CUSTOM_STRINGS;
  }
}

PoptorchCustomType described_type(const ir::Type& type) {
  return {static_cast<int32_t>(type.dtype), static_cast<int32_t>(type.rank()), type.shape.data()};
}

}  // namespace

CustomCall::CustomCall(const CustomId& id, const std::string& attributes,
                       std::vector<ir::Type> inputs)
    : id_(id), op_(find_custom_op(id)), inputs_(std::move(inputs)) {
  if (inputs_.size() != static_cast<size_t>(op_->table.input_count)) {
    fail(str("takes ", op_->table.input_count, " inputs but got ", inputs_.size(), "."));
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (is_foreign_dtype(inputs_[i].dtype) || inputs_[i].elements() == 0) {
      fail(str("cannot take ", inputs_[i], " as input ", i,
               ". Inputs have elements, which are numbers of up to 32 bits or booleans."));
    }
    input_types_.push_back(described_type(inputs_[i]));
  }
  bind_attributes(attributes);
  infer();
}

void CustomCall::fail(const std::string& text) const {
  throw UserError(str("[custom_op] op ", title(id_), " ", text));
}

void CustomCall::bind_attributes(const std::string& text) {
  const CustomAttrs given = parse_custom_attrs(text);
  check_names(given);
  if (op_->takes_any_attrs) {
    values_.reserve(given.size());
    for (const auto& [name, value] : given) bind_attribute(name, ir::type_of(value), value);
    return;
  }
  values_.reserve(op_->attrs.size());
  for (const CustomAttrDef& row : op_->attrs) {
    const ir::Attr* value = row.otherwise ? &*row.otherwise : nullptr;
    for (const auto& [name, one] : given) {
      if (name == row.name) value = &one;
    }
    if (!value) {
      fail(str("needs attribute '", row.name, "', ", kind_of(row.type),
               ". Give it in `attributes`."));
    }
    const auto fitting = as_type(*value, row.type);
    if (!fitting) {
      fail(str("has attribute '", row.name, "' as ", kind_of(row.type), " but got ",
               kind_of(ir::type_of(*value)), ", ", ir::attr_text(*value), "."));
    }
    bind_attribute(row.name, row.type, *fitting);
  }
}

void CustomCall::check_names(const CustomAttrs& given) const {
  std::vector<std::string> names;
  for (const CustomAttrDef& row : op_->attrs) names.push_back(row.name);
  for (const auto& [name, value] : given) {
    if (op_->takes(name)) continue;
    const std::string near = support::closest_name(name, names);
    fail(str("has no attribute '", name, "'. ",
             names.empty()  ? "It has none."
             : near.empty() ? str("It has: ", support::join(names, ", "), ".")
                            : str("Did you mean '", near, "'?")));
  }
}

void CustomCall::bind_attribute(const std::string& name, AttrType type, const ir::Attr& value) {
  Values& kept = values_.emplace_back();
  kept.name = name;
  std::visit(
      [&](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, double>) kept.floats = {static_cast<float>(held)};
        if constexpr (std::is_same_v<Held, ir::Floats>) kept.floats = {held.begin(), held.end()};
        if constexpr (std::is_same_v<Held, int64_t>) kept.ints = {held};
        if constexpr (std::is_same_v<Held, ir::Ints>) kept.ints = held;
        if constexpr (std::is_same_v<Held, std::string>) kept.texts = {held};
        if constexpr (std::is_same_v<Held, ir::Strings>) kept.texts = held;
      },
      value);
  for (const std::string& one : kept.texts) kept.strings.push_back(one.c_str());
  const size_t count = kept.floats.size() + kept.ints.size() + kept.strings.size();
  attrs_.push_back({kept.name.c_str(), number_of(type), 0, static_cast<int64_t>(count),
                    kept.floats.data(), kept.ints.data(), kept.strings.data()});
}

PoptorchCustomCall CustomCall::described(bool with_outputs) const {
  return {.inputs = input_types_.data(),
          .outputs = with_outputs ? output_types_.data() : nullptr,
          .attrs = attrs_.data(),
          .input_count = static_cast<int32_t>(input_types_.size()),
          .output_count = with_outputs ? static_cast<int32_t>(output_types_.size()) : 0,
          .attr_count = static_cast<int32_t>(attrs_.size()),
          .replica = 0,
          .replica_count = 1,
          .buffers = nullptr};
}

void CustomCall::infer() {
  struct Given {
    std::vector<ir::Type> types;
    bool is_sound = true;
  } given;
  const auto give = [](void* to, const PoptorchCustomType* type) {
    auto& into = *static_cast<Given*>(to);
    into.is_sound &= type->dtype >= 0 && type->dtype <= static_cast<int32_t>(DType::kF64) &&
                     type->rank >= 0 && type->rank <= static_cast<int32_t>(ir::kMaxRank);
    if (into.is_sound) {
      into.types.push_back(
          {static_cast<DType>(type->dtype), ir::Shape(type->shape, type->shape + type->rank)});
    }
  };
  std::array<char, kErrorSize> error{};
  const PoptorchCustomCall call = described(false);
  if (op_->table.infer(op_->table.self, &call, give, &given, error.data(), error.size()) != 0) {
    fail(str("refuses its inputs or attributes: ", error.data()));
  }
  outputs_ = std::move(given.types);
  if (given.is_sound && outputs_.size() != static_cast<size_t>(op_->table.output_count)) {
    fail(str("declares ", op_->table.output_count, " outputs, but its infer gives ",
             outputs_.size(), " types."));
  }
  for (size_t i = 0; i < outputs_.size() || !given.is_sound; ++i) {
    const std::string defect = !given.is_sound
                                   ? "a type or a number of dimensions that no tensor has."
                                   : ir::defect_of(outputs_[i].shape);
    if (!defect.empty()) fail(str("gives an impossible output ", i, ": ", defect));
    if (is_foreign_dtype(outputs_[i].dtype) || outputs_[i].elements() == 0) {
      fail(str("cannot give ", outputs_[i], " as output ", i,
               ". Outputs have elements, which are numbers of up to 32 bits or booleans."));
    }
    output_types_.push_back(described_type(outputs_[i]));
  }
}

ir::Cost CustomCall::cost() const {
  ir::Cost cost;
  for (const ir::Type& type : inputs_) cost.bytes += static_cast<double>(type.bytes());
  for (const ir::Type& type : outputs_) {
    cost.bytes += static_cast<double>(type.bytes());
    cost.flops += static_cast<double>(type.elements());
  }
  if (!op_->table.cost) return cost;
  std::array<char, kErrorSize> error{};
  const PoptorchCustomCall call = described(true);
  if (op_->table.cost(op_->table.self, &call, &cost.flops, &cost.bytes, error.data(),
                      error.size()) != 0) {
    fail(str("cannot compute its cost: ", error.data()));
  }
  const auto is_sound = [](double number) { return std::isfinite(number) && number >= 0; };
  if (is_sound(cost.flops) && is_sound(cost.bytes)) return cost;
  fail(str("has a cost of ", cost.flops, " operations and ", cost.bytes,
           " bytes. Both are numbers from 0."));
}

void CustomCall::run(void* const* buffers, int replica, int replica_count) const {
  std::vector<void*> all(buffers, buffers + inputs_.size() + outputs_.size());
  std::vector<std::vector<std::byte>> unwanted;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    void*& buffer = all[inputs_.size() + i];
    if (buffer) continue;
    unwanted.emplace_back(static_cast<size_t>(outputs_[i].bytes()));
    buffer = unwanted.back().data();
  }
  PoptorchCustomCall call = described(true);
  call.replica = replica;
  call.replica_count = replica_count;
  call.buffers = all.data();
  std::array<char, kErrorSize> error{};
  if (op_->table.compute(op_->table.self, &call, error.data(), error.size()) != 0) {
    fail(str("failed: ", error.data()));
  }
}

std::optional<CustomGradient> CustomCall::gradient() const {
  if (!op_->gradient) return std::nullopt;
  CustomGradient gradient = *op_->gradient;
  const auto declared = find_custom_op(gradient.id);
  CustomAttrs passed;
  for (size_t i = 0; i < attrs_.size(); ++i) {
    const Values& held = values_[i];
    if (!declared->takes(held.name)) continue;
    ir::Attr value;
    switch (attrs_[i].type) {
      case POPTORCH_CUSTOM_FLOAT:
        value = double{held.floats[0]};
        break;
      case POPTORCH_CUSTOM_FLOATS:
        value = ir::Floats(held.floats.begin(), held.floats.end());
        break;
      case POPTORCH_CUSTOM_INT:
        value = held.ints[0];
        break;
      case POPTORCH_CUSTOM_INTS:
        value = held.ints;
        break;
      case POPTORCH_CUSTOM_STRING:
        value = held.texts[0];
        break;
      default:
        value = held.texts;
    }
    passed.emplace_back(held.name, std::move(value));
  }
  gradient.attributes = custom_attrs_text(std::move(passed));
  return gradient;
}

const std::vector<int32_t>& CustomCall::summed_inputs() const { return op_->summed_inputs; }

}  // namespace poptorch::ops
