#include "frontends/torch/tracer/op_facts/op_info.hpp"

#include <ATen/core/enum_tag.h>

#include <mutex>
#include <set>
#include <unordered_map>

namespace poptorch::frontend {
namespace {

// Operators that torch tags as dynamic although their shapes are static.
const std::set<std::string> kNotDynamic{"aten::ctc_loss", "aten::_ctc_loss"};

// Composites that read values on the host. The generic op takes them whole.
const std::set<std::string> kWhole{"aten::ctc_loss"};

// Composites of other views.
const std::set<std::string> kComposedViews{"aten::real", "aten::imag"};

// Operators whose results share memory with the argument, which their schemas do not say.
const std::set<std::string> kUntrackedViews{"aten::unsafe_split", "aten::unsafe_split_with_sizes",
                                            "aten::_unsafe_view"};

const std::set<std::string> kGenericLosses{"aten::ctc_loss", "aten::multi_margin_loss",
                                           "aten::multilabel_margin_loss_forward"};

const std::set<std::string> kSubscripts{"index", "index_put", "_unsafe_index", "_unsafe_index_put",
                                        "_index_put_impl"};

std::string functional_name(const OpInfo& info) {
  std::string name = info.name;
  if (name.starts_with("aten::")) name = name.substr(6);
  const bool in_place =
      !info.writes.empty() && info.writes[0] == 0 && name.ends_with("_") && !name.ends_with("__");
  return in_place ? name.substr(0, name.size() - 1) : name;
}

OpInfo make_info(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  OpInfo info;
  info.name = schema.name();
  info.overload = schema.overload_name();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) info.writes.push_back(i);
  }
  for (const auto& result : schema.returns()) {
    const auto* alias = result.alias_info();
    info.is_view |= alias && !alias->isWrite() && info.writes.empty();
    const auto kind = result.type()->kind();
    info.has_tensor_results |= kind == c10::TypeKind::TensorType ||
                               kind == c10::TypeKind::ListType ||
                               kind == c10::TypeKind::OptionalType;
  }
  info.is_view &= !kComposedViews.contains(info.name);
  info.is_untracked_view = kUntrackedViews.contains(info.name) && info.writes.empty();
  info.is_view |= info.is_untracked_view;
  info.functional = functional_name(info);
  info.rule = all_rules().find(info.functional, info.overload);
  // Overloads `vec` take scale factors; torch converts them into overloads that have rows.
  if (info.overload == "vec") info.rule = nullptr;
  info.is_composite = !kWhole.contains(info.name) &&
                      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  info.is_loss = kGenericLosses.contains(info.name);
  info.takes_masks = kSubscripts.contains(info.functional);
  info.is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  info.data_dependent =
      (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) &&
      !kNotDynamic.contains(info.name) && !info.takes_masks;
  return info;
}

}  // namespace

const OpInfo& info_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<const c10::FunctionSchema*, OpInfo> cache;
  const std::lock_guard lock(mutex);
  const auto found = cache.find(&op.schema());
  if (found != cache.end()) return found->second;
  return cache.emplace(&op.schema(), make_info(op)).first->second;
}

}  // namespace poptorch::frontend
