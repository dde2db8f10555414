// Blocks of the C++ API: scopes, and begin_block's annotations of modules.
#include "frontends/torch/libtorch/blocks.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>

#include "frontends/torch/libtorch/telling.hpp"
#include "ir/roles.hpp"
#include "poptorch/poptorch.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {
namespace {

using support::str;
using support::UserError;
using torch::nn::Module;

std::string line_of(const std::source_location& where) {
  return str(" (", where.file_name(), ":", where.line(), ")");
}

constexpr int kMostIpus = 1 << 16;  // more than any system has

frontend::BlockSpec checked(const std::string& user_id, std::optional<int> ipu_id,
                            const std::source_location& where) {
  if (!ipu_id || (*ipu_id >= 0 && *ipu_id < kMostIpus)) return {user_id, ipu_id, line_of(where)};
  throw UserError(str("[partition] block '", user_id, "' has the ipu_id ", *ipu_id, line_of(where),
                      ". Pass an IPU's number, from 0."));
}

struct Annotation {
  uint64_t number;
  std::string text;
  frontend::BlockSpec block;
};

// Identifies modules by owner, not by address: a new module at an old address begins no block.
class Annotations {
 public:
  void add(const std::weak_ptr<const Module>& module, Annotation annotation) {
    const std::lock_guard lock(mutex_);
    std::erase_if(by_module_, [](const auto& entry) { return entry.first.expired(); });
    annotation.number = count_++;
    const auto [it, is_new] = by_module_.emplace(module, annotation);
    if (is_new) return;
    throw UserError(str("[partition] module has already been assigned to a block: ",
                        it->second.text, " comes before ", annotation.text,
                        ". Call poptorch::remove_blocks between them, or keep one."));
  }
  void remove(const std::weak_ptr<const Module>& module) {
    const std::lock_guard lock(mutex_);
    by_module_.erase(module);
  }
  std::optional<Annotation> find(const std::weak_ptr<const Module>& module) const {
    const std::lock_guard lock(mutex_);
    const auto it = by_module_.find(module);
    return it == by_module_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  mutable std::mutex mutex_;
  uint64_t count_ = 0;
  std::map<std::weak_ptr<const Module>, Annotation, std::owner_less<>> by_module_;
};

Annotations& annotations() {
  static Annotations all;
  return all;
}

}  // namespace

Block::Block(const std::string& user_id, std::optional<int> ipu_id, std::source_location where) {
  const auto block = checked(user_id, ipu_id, where);
  if (auto* recorder = frontend::BlockRecorder::current()) recorder->begin(block, true);
}

Block::~Block() {
  if (auto* tracer = frontend::Tracer::current()) tracer->set_block(-1, -1, -1, "", true);
}

void Block::start(const std::string& user_id, std::optional<int> ipu_id,
                  std::source_location where) {
  const auto block = checked(user_id, ipu_id, where);
  if (auto* recorder = frontend::BlockRecorder::current()) recorder->begin(block, false);
}

void Block::useAutoId() {
  if (auto* recorder = frontend::BlockRecorder::current()) recorder->reset_ids();
}

void begin_block(const Module& module, const std::string& user_id, std::optional<int> ipu_id,
                 std::source_location where) {
  const auto block = checked(user_id, ipu_id, where);
  const std::string text =
      str("begin_block of '", user_id, "' at a ", module.name(), line_of(where));
  if (module.weak_from_this().expired()) {
    throw UserError(str("[partition] ", text, ": no shared_ptr owns the module. Annotate modules ",
                        "of a model, which register_module made, or a ModuleHolder's."));
  }
  if (module.parameters().empty()) {
    throw UserError(str("[partition] ", text, ": the module has no parameters, so that its use ",
                        "cannot be seen. Use a poptorch::Block in forward."));
  }
  annotations().add(module.weak_from_this(), {0, text, block});
}

void remove_blocks(const Module& module) {
  annotations().remove(module.weak_from_this());
  for (const auto& child : module.children()) remove_blocks(*child);
}

namespace frontend {
namespace {

thread_local BlockRecorder* current_recorder = nullptr;

}  // namespace

BlockRecorder::BlockRecorder(const ExecutionStrategy& strategy)
    : strategy_(strategy), outer_(current_recorder) {
  current_recorder = this;
}

BlockRecorder::~BlockRecorder() { current_recorder = outer_; }

BlockRecorder* BlockRecorder::current() {
  return Tracer::current() ? current_recorder : nullptr;  // null while a trace is suspended
}

std::string BlockRecorder::begin(const BlockSpec& block, bool scoped,
                                 const std::string& id_before) {
  std::string id = block.user_id.empty() ? id_before : block.user_id;
  if (id.empty()) id = std::to_string(automatic_ids_++);
  auto it = begun_.find(id);
  if (it == begun_.end()) {
    // Without scopes, stage 0 is the code before the first block.
    const int count = static_cast<int>(begun_.size()), first = scoped ? 0 : 1;
    Begun made{place(id, block.ipu_id, count, first, block.line), count, first, block.line};
    it = begun_.emplace(id, std::move(made)).first;
  } else if (block.ipu_id) {
    const Begun& before = it->second;
    const int ipu = place(id, block.ipu_id, before.count, before.first, block.line).ipu;
    if (ipu != before.place.ipu) {
      throw UserError(str("[partition] block '", id, "' began on IPU ", before.place.ipu,
                          before.line, " and begins again with ipu_id ", *block.ipu_id, block.line,
                          ". A block is on one IPU: pass the same ipu_id, or give what runs there ",
                          "another user_id."));
    }
  }
  const ExecutionStrategy::Place& place = it->second.place;
  telling::block(id, place.stage, place.phase, place.ipu);
  Tracer::current()->set_block(place.ipu, place.stage, place.phase, id, scoped);
  return id;
}

ExecutionStrategy::Place BlockRecorder::place(const std::string& id, std::optional<int> ipu_id,
                                              int count, int first, const std::string& line) const {
  try {
    return strategy_.place(id, ipu_id, count, first);
  } catch (const UserError& error) {
    throw UserError(error.what() + line, error.where());
  }
}

BegunBlocks::BegunBlocks(const Module& model, const std::vector<NamedTensor>& state)
    : holders_(holders_in(model)) {
  for (const auto& entry : state) slots_.emplace(entry.tensor.unsafeGetTensorImpl(), entry.name);
  visit(model, "", nullptr);
}

BegunBlocks::Holders BegunBlocks::holders_in(const Module& module) {
  Holders found;
  for (const auto& parameter : module.parameters(false)) {
    found[parameter.unsafeGetTensorImpl()].insert(&module);
  }
  for (const auto& child : module.children()) {
    for (const auto& [parameter, holders] : holders_in(*child)) {
      found[parameter].insert(holders.begin(), holders.end());
    }
  }
  return found;
}

// Returns whether a block begins at the module or in it. `around` is the enclosing block.
bool BegunBlocks::visit(const Module& module, const std::string& path, Begun* around) {
  const auto annotation = annotations().find(module.weak_from_this());
  bool begins = false, begins_inside = false;
  if (annotation) {
    const auto& [number, text, block] = *annotation;
    const auto [it, is_new] =
        begun_.emplace(number, Begun{text, path, block, holders_in(module), {}, ""});
    if (!is_new) return true;  // visited before, under another name
    around = &it->second;
    begins = true;
  }
  if (around) {
    for (const auto& parameter : module.parameters(false)) begin_at(parameter, *around);
  }
  for (const auto& child : module.named_children()) {
    const std::string name = path.empty() ? child.key() : path + "." + child.key();
    if (visit(*child.value(), name, begins_inside ? nullptr : around)) begins_inside = true;
  }
  if (begins && around->slots.empty() && !begins_inside) {
    throw UserError(str("[partition] ", around->text, ": other modules have all its parameters, ",
                        "too, so that its use cannot be seen. Use a poptorch::Block in forward."));
  }
  return begins || begins_inside;
}

void BegunBlocks::begin_at(const at::Tensor& parameter, Begun& begun) {
  const auto* key = parameter.unsafeGetTensorImpl();
  if (begun.inside.at(key).size() < holders_.at(key).size()) return;
  const std::string& slot = slots_.at(key);
  begun.slots.push_back(slot);
  by_slot_.emplace(slot, &begun);
}

void BegunBlocks::use(const std::string& slot) {
  const auto it = by_slot_.find(slot);
  BlockRecorder* recorder = BlockRecorder::current();
  if (it == by_slot_.end() || !recorder) return;
  Begun& begun = *it->second;
  begun.entered_as = recorder->begin(begun.block, false, begun.entered_as);
}

void BegunBlocks::check(const ir::Graph& main) const {
  std::map<std::string, const ir::Op*> first_uses;  // by slot
  for (const ir::Op* op : main.ops()) {
    const std::string* slot = ir::slot_of(op);
    if (!slot) continue;
    for (const ir::Use& use : op->result(0)->uses()) {
      if (!use.op) continue;
      const ir::Op*& first = first_uses[*slot];
      if (!first || use.op->is_before(first)) first = use.op;
    }
  }
  const auto is_used = [&](const Begun& begun) {
    return std::ranges::any_of(begun.inside, [&](const auto& parameter) {
      return first_uses.contains(slots_.at(parameter.first));
    });
  };
  std::set<std::optional<int>> in_use;  // IPUs, which an unused part of the model may name too
  for (const auto& [number, begun] : begun_) {
    if (begun.block.ipu_id && is_used(begun)) in_use.insert(begun.block.ipu_id);
  }
  const Begun* last = nullptr;
  const ir::Op* last_use = nullptr;
  for (const auto& [number, begun] : begun_) {
    if (!is_used(begun)) {
      if (in_use.contains(begun.block.ipu_id)) continue;
      throw UserError(str("[partition] ", begun.text, " was put on layer '", begun.path,
                          "', which the model does not use. Put no unused layers into blocks: ",
                          "remove the begin_block."));
    }
    const ir::Op* use = nullptr;
    for (const auto& slot : begun.slots) {
      const auto it = first_uses.find(slot);
      if (it != first_uses.end() && (!use || it->second->is_before(use))) use = it->second;
    }
    if (!use) continue;
    if (last && use->is_before(last_use)) {
      throw UserError(str("[partition] ", last->text, " begins after ", begun.text,
                          ", but was called first. Call begin_block in the order in which the ",
                          "layers run."));
    }
    last = &begun;
    last_use = use;
  }
}

}  // namespace frontend
}  // namespace poptorch
