// Libraries register from static objects, where nothing can be thrown. A malformed declaration is
// kept with its defect and refused at its use.
#include "ops/custom_registry.hpp"

#include <map>
#include <mutex>
#include <vector>

#include "ir/op_def.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using ir::AttrType;
using support::str;
using support::UserError;

constexpr int32_t kMaxOperands = 1024;

struct Table {
  std::mutex mutex;
  std::map<CustomId, std::shared_ptr<const CustomOp>> rows;
  // Declarations live until the process ends, including those that a newer one replaced.
  std::vector<std::shared_ptr<const CustomOp>> replaced;
};

Table& table() {
  static Table* instance = new Table();  // outlives libraries
  return *instance;
}

AttrType attr_type(int32_t number) {
  static constexpr AttrType kTypes[] = {AttrType::kFloat, AttrType::kFloats, AttrType::kInt,
                                        AttrType::kInts,  AttrType::kString, AttrType::kStrings};
  if (number < 0 || number > POPTORCH_CUSTOM_STRINGS) {
    throw UserError(str("an attribute has the type ", number, ", which does not exist."));
  }
  return kTypes[number];
}

ir::Attr default_of(const PoptorchCustomAttr& attr) {
  const auto count = static_cast<size_t>(attr.count);
  switch (attr_type(attr.type)) {
    case AttrType::kFloat:
      return double{attr.floats[0]};
    case AttrType::kFloats:
      return ir::Floats(attr.floats, attr.floats + count);
    case AttrType::kInt:
      return attr.ints[0];
    case AttrType::kInts:
      return ir::Ints(attr.ints, attr.ints + count);
    case AttrType::kString:
      return std::string(attr.strings[0]);
    default:
      return ir::Strings(attr.strings, attr.strings + count);
  }
}

void check_index(const char* what, int32_t index, int32_t count) {
  if (index >= 0 && index < count) return;
  throw UserError(str(what, " ", index, " is named, but there are ", count, "."));
}

CustomGradient gradient_of(const PoptorchCustomOp& op) {
  const PoptorchCustomGradient& given = *op.gradient;
  CustomGradient gradient{{given.domain, given.name, given.version}, "", {}, {}};
  if (gradient.id.name.empty()) throw UserError("its gradient op has no name.");
  for (int32_t i = 0; i < given.input_count; ++i) {
    const int32_t kind = given.input_kinds[i], index = given.input_indices[i];
    const bool is_input = kind == POPTORCH_CUSTOM_OF_INPUT;
    check_index(is_input ? "input" : "output", index, is_input ? op.input_count : op.output_count);
    gradient.inputs.push_back({kind, index});
  }
  for (int32_t i = 0; i < given.output_count; ++i) {
    check_index("as that of a gradient, input", given.gradient_of[i], op.input_count);
    for (int32_t other : gradient.of) {
      if (other == given.gradient_of[i]) {
        throw UserError(str("its gradient op gives two gradients of input ", other, "."));
      }
    }
    gradient.of.push_back(given.gradient_of[i]);
  }
  return gradient;
}

// Fills in the declaration of `op`. UserError without a prefix if it is malformed.
void take(const PoptorchCustomOp& op, CustomOp& row) {
  if (op.abi != POPTORCH_CUSTOM_OP_ABI) {
    throw UserError(str("its library was built for version ", op.abi,
                        " of the interface of custom ops, but this PopTorch has version ",
                        POPTORCH_CUSTOM_OP_ABI, ". Build the library again."));
  }
  if (row.id.name.empty() || row.id.domain.empty()) throw UserError("it has no name or no domain.");
  if (row.id.version < 0) throw UserError("its version is below zero.");
  if (!op.infer || !op.compute) throw UserError("it lacks `infer` or `compute`.");
  if (op.input_count < 0 || op.input_count > kMaxOperands || op.output_count < 1 ||
      op.output_count > kMaxOperands) {
    throw UserError(str("it has ", op.input_count, " inputs and ", op.output_count, " outputs. ",
                        "From 0 to ", kMaxOperands, " and from 1 to ", kMaxOperands,
                        " are possible."));
  }
  row.takes_any_attrs = op.attr_count == POPTORCH_CUSTOM_ANY_ATTRS;
  for (int32_t i = 0; i < op.attr_count; ++i) {
    const PoptorchCustomAttr& attr = op.attrs[i];
    if (row.find_attr(attr.name)) {
      throw UserError(str("it declares attribute '", attr.name, "' twice."));
    }
    row.attrs.push_back({attr.name, attr_type(attr.type),
                         attr.is_required ? std::nullopt : std::optional(default_of(attr))});
  }
  if (op.gradient) row.gradient = gradient_of(op);
  for (int32_t i = 0; i < op.summed_count; ++i) {
    check_index("as summed over replicas, input", op.summed_inputs[i], op.input_count);
    row.summed_inputs.push_back(op.summed_inputs[i]);
  }
  row.table = op;
}

std::string text_of(const char* text) { return text ? text : ""; }

}  // namespace

std::string title(const CustomId& id) {
  return str("'", id.name, "' of domain '", id.domain, "', version ", id.version);
}

const CustomId& fast_gather_last_dim_id() {
  static const CustomId id{"poptorch.custom_ops", "FastGatherLastDim", 1};
  return id;
}

const CustomAttrDef* CustomOp::find_attr(const std::string& name) const {
  for (const CustomAttrDef& attr : attrs) {
    if (attr.name == name) return &attr;
  }
  return nullptr;
}

std::shared_ptr<const CustomOp> find_custom_op(const CustomId& id) {
  std::vector<std::string> names{fast_gather_last_dim_id().name};
  std::vector<std::string> titles{title(fast_gather_last_dim_id())};
  {
    const std::lock_guard lock(table().mutex);
    const auto found = table().rows.find(id);
    if (found != table().rows.end()) {
      if (found->second->defect.empty()) return found->second;
      throw UserError(
          str("[custom_op] op ", title(id), " cannot be used: ", found->second->defect));
    }
    for (const auto& [known, row] : table().rows) {
      names.push_back(known.name);
      titles.push_back(title(known));
    }
  }
  std::string near = support::closest_name(title(id), titles);
  for (size_t i = 0; near.empty() && i < names.size(); ++i) {
    if (names[i] == support::closest_name(id.name, names)) near = titles[i];
  }
  if (id.domain == kPythonDomain) {
    throw UserError(str("[custom_op] there is no op ", title(id), ", in this process: it is a ",
                        "function of Python, and a saved program does not hold it. Compile the ",
                        "model where the function is, or write the op in C++."));
  }
  throw UserError(str("[custom_op] there is no op ", title(id), ", in this process. ",
                      near.empty() ? "" : str("Did you mean ", near, "? "),
                      "Load the library that has it with ctypes.cdll.LoadLibrary before the model "
                      "is compiled or the program is loaded."));
}

std::vector<CustomId> custom_op_ids() {
  const std::lock_guard lock(table().mutex);
  std::vector<CustomId> ids;
  for (const auto& [id, row] : table().rows) ids.push_back(id);
  return ids;
}

std::string custom_declarations() {
  const std::lock_guard lock(table().mutex);
  std::string text;
  for (const auto& [id, row] : table().rows) {
    text += str(title(id), " sums ", support::join(row->summed_inputs, ","));
    if (const auto& gradient = row->gradient) {
      text += str(" has ", title(gradient->id), " of ", support::join(gradient->of, ","), " from");
      for (const auto& [kind, index] : gradient->inputs) text += str(" ", kind, ":", index);
    }
    text += "\n";
  }
  return text;
}

}  // namespace poptorch::ops

extern "C" int32_t poptorch_register_custom_op(const PoptorchCustomOp* op) {
  using namespace poptorch;
  try {
    auto row = std::make_shared<ops::CustomOp>();
    row->id = {ops::text_of(op->domain), ops::text_of(op->name), op->version};
    try {
      ops::take(*op, *row);
    } catch (const support::UserError& error) {
      row->defect = error.what();
      support::log(support::LogLevel::kWarn, support::str("[custom_op] op ", ops::title(row->id),
                                                          " is refused: ", row->defect));
    }
    const bool is_refused = !row->defect.empty();
    const std::lock_guard lock(ops::table().mutex);
    auto& known = ops::table().rows[row->id];
    if (known) {
      support::log(support::LogLevel::kWarn,
                   support::str("[custom_op] op ", ops::title(row->id),
                                " is registered again. The new one replaces it."));
      ops::table().replaced.push_back(std::move(known));
    }
    known = std::move(row);
    return is_refused ? 1 : 0;
  } catch (const std::exception&) {  // out of memory
    return 1;
  }
}
