// Handles values of tensors, state slots, inputs and the user's place.
#include "frontends/torch/tracer/graph/tracer.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "frontends/torch/aten/call.hpp"
#include "frontends/torch/tracer/graph/host_tensors.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "ops/all_ops.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;
using support::UserError;

thread_local Tracer* current_tracer = nullptr;

constexpr c10::DispatchKey kKey = c10::DispatchKey::DeferredInit;

// Returns true for ops that gradients do not pass.
bool blocks_gradient(const ir::Op& op) {
  return op.role() != ir::Role::kCall && std::holds_alternative<ir::NoGradient>(op.def().grad);
}

TraceResult traced(const TraceRequest& request, const Forward& forward) {
  Tracer tracer(request);
  std::vector<at::Tensor> outputs;
  try {
    outputs = tracer.run(forward);
  } catch (const std::exception& error) {
    tracer.carry_known_values();
    tracer.rethrow_if_cause_of(error.what());
    throw;
  }
  return tracer.finish(outputs);
}

// Returns the type of a user's tensor if the device holds it in a narrower one.
std::optional<c10::ScalarType> wide_type(c10::ScalarType type) {
  const ir::DType dtype = ir_dtype(type);
  return narrow(dtype) == dtype ? std::nullopt : std::optional(type);
}

}  // namespace

TraceGuard::TraceGuard() { c10::impl::tls_set_dispatch_key_included(kKey, true); }
TraceGuard::~TraceGuard() { c10::impl::tls_set_dispatch_key_included(kKey, false); }

struct PauseGuard::Guards {
  c10::impl::ExcludeDispatchKeyGuard key{kKey};
  at::AutoDispatchBelowADInplaceOrView below;
};
PauseGuard::PauseGuard() : guards_(std::make_unique<Guards>()) {}
PauseGuard::~PauseGuard() = default;

TraceResult trace(const TraceRequest& request, const Forward& forward) {
  return support::in_frame("trace", [&] { return traced(request, forward); });
}

Tracer* Tracer::current() { return current_tracer; }

Tracer::Tracer(const TraceRequest& request)
    : request_(request),
      module_(std::make_unique<ir::Module>(ops::registry())),
      builder_(module_->add_graph("main")),
      follows_state_(request.training || at::GradMode::is_enabled()),
      outer_(current_tracer) {
  if (outer_) throw UserError("[tracer] a model is traced while another one is being traced.");
  for (const auto& entry : request_.state) add_state(entry);
  freeze(carried_tensors());
  current_tracer = this;
}

Tracer::~Tracer() {
  current_tracer = outer_;
  for (const auto& [name, tensor, device, dtype, storage] : lent_) {
    tensor.unsafeGetTensorImpl()->set_storage_and_dtype(storage, dtype);
    report_device(tensor, device);
  }
}

std::vector<at::Tensor> Tracer::make_inputs() {
  std::vector<at::Tensor> result;
  for (const auto& example : request_.inputs) {
    const ir::DType dtype = narrow(ir_dtype(example.scalar_type()));
    if (example.numel() == 0) {
      throw UserError(str("Zero-sized tensors are unsupported (Got shape ",
                          ir::shape_text(example.sizes().vec()), "): input ", result.size(),
                          ". Leave the argument out."));
    }
    const auto& names = request_.input_names;
    const size_t number = result.size();
    auto* value = builder_.graph().add_input(
        {dtype, example.sizes().vec()}, names.empty() ? str("input", number) : names.at(number));
    result.push_back(make_tensor(value, torch_dtype(dtype)));
    Root& root = *memory_.roots().back();
    root.wide_type = wide_type(example.scalar_type());
    if (root.wide_type) {  // torch checks that strided views of the wide type are in the memory
      result.back().storage().unsafeGetStorageImpl()->set_nbytes(example.numel() *
                                                                 example.element_size());
    }
    inputs_.push_back(&root);
  }
  return result;
}

std::vector<at::Tensor> Tracer::run(const Forward& forward) {
  const auto inputs = make_inputs();
  forget_for_device();
  TraceGuard guard;
  return forward(inputs);
}

void Tracer::add_state(const NamedTensor& entry) {
  lend(entry);
  if (entry.tensor.numel() == 0) return;           // a constant where it is read
  if (Root* known = memory_.find(entry.tensor)) {  // tied
    known->requires_grad |= entry.tensor.requires_grad();
    known->first_history().add(entry.tensor);
    return;
  }
  const ir::Type type = type_of_tensor(entry.tensor);
  ir::Value* variable = builder_.variable(
      {.name = entry.name, .type = type, .kind = entry.is_buffer ? "buffer" : "parameter"});
  Root& root = memory_.add(entry.tensor, variable, true);
  root.slot = entry.name;
  root.variable = variable;
  root.wide_type = wide_type(c10::typeMetaToScalarType(lent_.back().dtype));
  root.is_buffer = entry.is_buffer;
  root.requires_grad = entry.tensor.requires_grad();
  if (root.requires_grad && follows_state_) active_.insert(variable);
  slots_.push_back(entry);
  noted_ = builder_.graph().last();
}

void Tracer::lend(const NamedTensor& entry) {
  const at::Tensor& tensor = entry.tensor;
  if (tensor.device() == ipu_device()) return;  // it has several names
  if (tensor.scalar_type() == c10::ScalarType::Double) {
    warn_once("[64 bits] parameters and buffers in float64 are float32 on the device");
  }
  lent_.push_back({entry.name, tensor, tensor.device(), tensor.dtype(), tensor.storage()});
  const auto dtype = torch_dtype(narrow(ir_dtype(tensor.scalar_type())));
  tensor.unsafeGetTensorImpl()->set_storage_and_dtype(tensor.storage(),
                                                      c10::scalarTypeToTypeMeta(dtype));
  report_device(tensor, ipu_device());
}

ir::Value* Tracer::constant(const at::Tensor& tensor) {
  PauseGuard pause;
  ir::Builder builder = regions_.empty() ? builder_ : ir::Builder(module_->main());
  return builder.constant(literal_of(of_cpu(tensor), "a constant" + place()));
}

Root& Tracer::root_of(const at::Tensor& tensor) {
  if (Root* known = memory_.find(tensor)) return *known;
  if (is_dataless(tensor)) {
    throw UserError(str("[tracer] a tensor of shape ", ir::shape_text(tensor.sizes().vec()),
                        " belongs to another trace", place(),
                        ". Do not keep tensors of a forward call for the next one."));
  }
  if (is_of_host(tensor)) refuse_host_tensor(tensor);
  ir::Value* initial = constant(tensor);
  Root& root = memory_.add(tensor, initial, true);
  members_.push_back({tensor, &root, initial});
  return root;
}

ir::Value* Tracer::cut(ir::Value* value) {
  if (!is_active(value)) return value;
  ir::Value*& made = detached_[value];
  const bool is_slot = ir::slot_of(value->producer()) != nullptr;
  if (!made || is_slot) made = builder_.value("detach", {value});
  return made;
}

ir::Value* Tracer::join(ir::Value* data, ir::Value* history, const Root* owner) {
  ir::Value* here = bring(data, owner);
  if (!history || !is_active(history) || history->type() != data->type()) return cut(here);
  if (data == history) return here;
  ir::Value* joint = builder_.value("with_history", {here, bring(history, owner)});
  note_new_ops();
  return joint;
}

void Tracer::enter_module_of(const Root& root) {
  if (!root.variable || !request_.without_python) return;
  const std::string& slot = root.slot.text();
  builder_.scope = slot.substr(0, slot.rfind('.') == std::string::npos ? 0 : slot.rfind('.'));
  if (request_.before_use) request_.before_use(slot);
}

ir::Value* Tracer::read(const at::Tensor& tensor) {
  if (is_of_host(tensor)) {
    if (tensor.dim() > 0 && !moves_host_) refuse_host_tensor(tensor);
    return bring(constant(tensor), nullptr);
  }
  Root& root = root_of(tensor);
  enter_module_of(root);
  const Geometry geometry = Geometry::of(tensor);
  History* history = root.history_of(tensor);
  if (!history && tensor.requires_grad()) history = memory_.move_history(tensor, root);
  ir::Value* value = history ? root.read(*this, geometry, *history) : root.read(*this, geometry);
  note_new_ops();
  const bool is_leaf = !history || (!is_active(value) && is_dataless(tensor));
  if (tensor.requires_grad() && is_leaf && regions_.empty()) {
    // The user called requires_grad_(), so gradients end here.
    value = begin_leaf(cut(value));
    if (!history) history = &root.own_history_of(tensor);
    root.replace(geometry, value, *history);
  }
  // Torch no longer follows this handle (detach, .data, no_grad), and neither does the graph.
  return history && tensor.requires_grad() ? value : cut(value);
}

void Tracer::write(const at::Tensor& tensor, ir::Value* value) {
  Root& root = root_of(tensor);
  if (function_ && &root.value()->graph() != &builder_.graph()) {
    throw support::UnsupportedError(
        "[tracer] a tensor from outside is written inside an autograd.Function. Return the new "
        "value instead.");
  }
  const bool is_parameter = root.variable && !root.is_buffer;
  if (is_parameter && tensor.requires_grad() && at::GradMode::is_enabled() && request_.training) {
    throw UserError(str("[tracer] parameter '", root.slot, "' is written in place", place(),
                        ". A leaf that requires gradients can only be changed under "
                        "torch.no_grad()."));
  }
  const Geometry geometry = Geometry::of(tensor);
  History* history =
      at::GradMode::is_enabled() && !is_parameter ? &root.own_history_of(tensor) : nullptr;
  ir::Value* before = history ? root.read(*this, geometry, *history) : root.read(*this, geometry);
  if (before == value) return;  // x[i] += y ends by storing x[i] in itself
  store(root, geometry, value, history);
  note_new_ops();
  if (!history || root.variable || !is_active(root.value())) return;
  history->require_grad();
}

void Tracer::store(Root& root, const Geometry& geometry, ir::Value* value, History* history) {
  if (&root.value()->graph() != &builder_.graph()) {
    Region& region = *regions_.innermost();
    ir::Value* outer = regions_.bring(root.value(), &root, 1);
    region.input_for(outer, &root);
    region.written.push_back({&root, root.value(), outer});
  }
  root.write(*this, geometry, value, history);
  if (in_region() || !root.variable || root.is_buffer) return;
  // A parameter is written at once, so that gradients belong to the slot and not to an intermediate
  // value.
  ir::Value* written = builder_.value("detach", {root.value()});
  builder_.emit("assign", {root.variable, written});
  root.write(*this, root.geometry(), root.variable, &root.first_history());
}

at::Tensor Tracer::make_tensor(ir::Value* value, c10::ScalarType dtype) {
  note_new_ops();
  at::Tensor tensor = make_dataless(value->type().shape, dtype);
  const bool followed = at::GradMode::is_enabled();
  Root& root = memory_.add(tensor, value, followed);
  note_made(tensor);
  if (followed && is_active(value)) root.history_of(tensor)->require_grad();
  return tensor;
}

at::Tensor Tracer::make_constant(const at::Tensor& value) {
  if (!value.defined()) return value;
  const auto dtype = value.scalar_type();
  if (value.numel() == 0) return make_empty(value.sizes().vec(), dtype);
  const auto literal = [&] {
    const PauseGuard pause;
    return literal_of(value);
  }();
  return make_tensor(builder_.constant(literal), dtype);
}

at::Tensor Tracer::make_empty(const ir::Shape& shape, c10::ScalarType dtype) {
  const ir::Type type{narrow(ir_dtype(dtype)), shape};
  return make_tensor(builder_.constant(ir::Literal(type, {})), dtype);
}

void Tracer::note_new_ops() {
  if (!regions_.empty()) return;  // gradients pass a function as a whole
  const ir::Graph& graph = builder_.graph();
  for (ir::Op* op = noted_ ? noted_->next() : graph.first(); op; op = op->next()) {
    noted_ = op;
    if (blocks_gradient(*op)) continue;
    bool active = false, of_leaf = false;
    for (ir::Value* operand : op->operands()) {
      active |= operand && is_active(operand);
      of_leaf |= operand && of_leaves_.contains(operand);
    }
    if (!active) continue;
    for (size_t i = 0; i < op->result_count(); ++i) {
      const ir::DType dtype = op->result(i)->type().dtype;
      if (!ir::is_float(dtype) && !ir::is_complex(dtype)) continue;
      active_.insert(op->result(i));
      if (of_leaf) of_leaves_.insert(op->result(i));
    }
  }
}

ir::Value* Tracer::bring(ir::Value* value, const Root* owner) {
  return regions_.bring(value, owner);
}

void Tracer::enter_call() {
  builder_.location = location();
  builder_.scope = scopes_.empty() ? ir::Symbol() : scopes_.back();
  builder_.labels = labels_;
}

void Tracer::set_block(int ipu, int stage, int phase, const std::string& name, bool scoped) {
  if (in_region() && stage >= 0 &&
      (ipu != regions_.placement().ipu || stage != regions_.placement().stage)) {
    throw support::UnsupportedError(
        str("[tracer] block '", name, "' begins in a body of poptorch.for_loop or poptorch.cond",
            place(), ". A body runs in one block: begin the block before that call."));
  }
  builder_.placement.ipu = ipu;
  builder_.placement.stage = stage;
  builder_.placement.phase = phase;
  builder_.placement.block = name;
  has_blocks_ = true;
  blocks_are_scopes_ |= scoped;
}

void Tracer::pop_scope() {
  if (!scopes_.empty()) scopes_.pop_back();
}

ir::Location Tracer::location() const {
  return request_.locate ? request_.locate() : ir::Location{};
}

void Tracer::warn_once(const std::string& text) {
  if (warned_.insert(text).second) support::log(support::LogLevel::kWarn, text);
}

std::string Tracer::place() const { return ir::place_text(location()); }

void Tracer::refuse(const std::string& op, const support::UnsupportedError& error,
                    const std::vector<const ir::Value*>& stand_ins) {
  refusals_.add(op, error, location());
  for (const ir::Value* value : stand_ins) {
    for (const ir::Op* maker = value->producer(); maker && stand_ins_.insert(maker).second;) {
      maker = maker->operand_count() ? maker->operand(0)->producer() : nullptr;
    }
  }
}

bool Tracer::is_buffer(const std::string& slot) const {
  const auto is_it = [&](const NamedTensor& entry) { return entry.name == slot; };
  const auto found = std::find_if(slots_.begin(), slots_.end(), is_it);
  return found != slots_.end() && found->is_buffer;
}

void Tracer::remember(std::exception_ptr error, std::string text) {
  error_ = std::move(error);
  error_text_ = std::move(text);
}

bool Tracer::is_cause_of(const std::string& text) const {
  return !error_text_.empty() && text.find(error_text_) != std::string::npos;
}

void Tracer::rethrow_if_cause_of(const std::string& text) const {
  if (!is_cause_of(text)) return;
  if (!refusals_.empty()) refusals_.raise(error_text_);
  if (error_) std::rethrow_exception(error_);
}

}  // namespace poptorch::frontend
