// One running trace: the graph being built, what every torch tensor stands for in it, and the
// user's place in the model. `trace` is the entry; the dispatcher's handler (dispatch.cpp) does the
// work while the user's forward runs.
//
// Nothing of the user's module is replaced: parameters and buffers are recognised by their storage.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/torch/tracer/graph/function.hpp"
#include "frontends/torch/tracer/graph/known_values.hpp"
#include "frontends/torch/tracer/graph/multi_conv.hpp"
#include "frontends/torch/tracer/graph/refusals.hpp"
#include "frontends/torch/tracer/graph/region.hpp"
#include "frontends/torch/tracer/values/memory.hpp"
#include "ir/builder.hpp"

namespace poptorch::frontend {

struct NamedTensor {
  std::string name;  // the module path, which names the state slot
  at::Tensor tensor;
  bool is_buffer = false;
  at::Tensor host = {};  // what holds the values, when `tensor` stands for one replica's alone
};

struct TraceRequest {
  std::vector<at::Tensor> inputs;        // examples of one micro-batch: only shape and dtype count
  std::vector<std::string> input_names;  // none: their numbers are
  std::vector<NamedTensor> state;
  bool training = false;
  // A program of LibTorch. Without hooks to say which module runs, an op belongs to the module
  // whose tensors it reads.
  bool without_python = false;
  // With it: called with each slot that an op is about to read.
  std::function<void(const std::string&)> before_use = {};
  // The user's line that is running; absent: not known.
  std::function<ir::Location()> locate = {};
};

struct TraceOutput {
  int index = -1;        // among the graph's outputs
  at::Tensor host = {};  // when index is -1: a host tensor that the model returned as it is
};

struct TraceResult {
  std::unique_ptr<ir::Module> module;
  std::vector<TraceOutput> outputs;
  // Numbers of the inputs that forward wrote. What they hold at its end are the graph's last
  // outputs, in this order.
  std::vector<size_t> written_inputs;
  std::vector<NamedTensor> state;  // without aliases: one entry per slot
};

using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Runs `forward` on stand-ins of the inputs and records it. Errors: UserError, UnsupportedError.
TraceResult trace(const TraceRequest& request, const Forward& forward);

class Tracer : private Cursor {
 public:
  explicit Tracer(const TraceRequest& request);
  ~Tracer() override;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // The trace of this thread; nullptr when there is none.
  static Tracer* current();

  // What `forward` gives for stand-ins of the inputs.
  std::vector<at::Tensor> run(const Forward& forward);
  TraceResult finish(const std::vector<at::Tensor>& outputs);

  ir::Builder& builder() override { return builder_; }
  Cursor& cursor() { return *this; }
  ir::Module& module() { return *module_; }
  bool training() const { return request_.training; }
  // Whether gradients may be asked for: in inference, of leaves that forward makes.
  bool follows_gradients() const { return request_.training || has_leaves_; }
  bool without_python() const { return request_.without_python; }

  // The value that `tensor` holds now, in its narrowed dtype. A host tensor of no one becomes a
  // constant.
  ir::Value* read(const at::Tensor& tensor);
  // `tensor` holds `value` (of its shape and narrowed dtype) from here on.
  void write(const at::Tensor& tensor, ir::Value* value);
  // A new tensor that holds `value`.
  at::Tensor make_tensor(ir::Value* value, c10::ScalarType dtype);
  // One that holds what a tensor of the host does; an undefined one for such.
  at::Tensor make_constant(const at::Tensor& value);
  // One without elements. It holds nothing, and no op reads it: what an operator makes of it is
  // known on the host.
  at::Tensor make_empty(const ir::Shape& shape, c10::ScalarType dtype);
  // What follows reads the root: of LibTorch's modules, its slot says which module and block runs.
  void enter_module_of(const Root& root);
  // An ordinary tensor of the host: no member of a module, nor anything that the trace has made or
  // written. It is read where a program moves it to the device, and where it has no dimensions.
  bool is_of_host(const at::Tensor& tensor) const;
  // What members of modules that are neither parameters nor buffers hold: constants.
  void freeze(const std::vector<at::Tensor>& members);
  // What it holds, on the host, where that depends on no input, no state and no random number.
  std::optional<at::Tensor> known(const at::Tensor& tensor);
  bool is_buffer(const std::string& slot) const;
  // What a truth value is when all numbers are finite, where that makes it known. The program then
  // ends its run where it is another.
  std::optional<bool> expected(const at::Tensor& tensor);
  // The root of `tensor`, made as a constant when there was none.
  Root& root_of(const at::Tensor& tensor);
  // True when gradients reach a parameter from `value`.
  bool is_active(ir::Value* value) const { return active_.contains(value); }
  // Brings `active_` up to date with ops emitted since the last call.
  void note_new_ops();

  // torch.autograd.Function with its own backward, in three steps: the tensors that stand for the
  // arguments in its forward; those that stand for the gradients of its floating outputs in its
  // backward (undefined for other outputs); the outputs. `gradients`: one per floating argument,
  // undefined for none.
  bool in_function() const { return function_.has_value(); }
  std::vector<at::Tensor> begin_function(const std::string& name,
                                         const std::vector<at::Tensor>& arguments);
  std::vector<at::Tensor> begin_backward(const std::vector<at::Tensor>& outputs);
  std::vector<at::Tensor> end_function(const std::vector<at::Tensor>& gradients);
  void abandon_function();  // or hook; after an error, as if it had not begun

  // A gradient hook of `tensor`: the tensor that stands for its gradient; then what the hook makes
  // of that. All uses of `tensor`, earlier ones too, send their gradient through the hook.
  at::Tensor begin_hook(const at::Tensor& tensor);
  void end_hook(const at::Tensor& tensor, const at::Tensor& gradient);
  // What uses the tensors, which are a function's first arguments, uses its first results instead.
  void use_results(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& results);

  // What torch.autograd.grad differentiates: a new tensor that holds what `tensor` does, through
  // which alone its gradient is.
  at::Tensor make_leaf(const at::Tensor& tensor);
  // Gradients of the inputs by seeds of the outputs; undefined where nothing depends on one. Inside
  // regions they are refused.
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs,
                                    const std::vector<at::Tensor>& seeds,
                                    const std::vector<at::Tensor>& inputs);

  // A loop's body or a branch (in inference only): the tensors that stand for the arguments in it;
  // the end of it, where it gives `outputs`; or its end in an error, as if it had not begun.
  std::vector<at::Tensor> begin_region(const std::vector<at::Tensor>& arguments);
  std::shared_ptr<Region> end_region(const std::vector<at::Tensor>& outputs);
  void abandon_region();
  // Emit the op that runs regions. Gives tensors like `outputs`, which one of them gave.
  std::vector<at::Tensor> repeat(Region& body, int64_t count,
                                 const std::vector<at::Tensor>& outputs);
  std::vector<at::Tensor> branch(const at::Tensor& condition, Region& then_region,
                                 Region& else_region, const std::vector<at::Tensor>& outputs);

  // The user's place: stamped on the ops that follow.
  void enter_call();
  // Whether `read` takes tensors of the host, which an op is there to move.
  void set_moves_host(bool moves) { moves_host_ = moves; }
  void push_scope(ir::Symbol scope) { scopes_.push_back(scope); }
  void pop_scope();
  // The labels of the ops that follow; gives what they were before.
  ir::Symbol set_labels(ir::Symbol labels) { return std::exchange(labels_, labels); }
  MultiConvs& multi_convs() { return multi_convs_; }
  // Ops that follow run on this IPU in this stage; -1: they name none. `scoped`: by a scope that
  // ends: then every op of the model must be in a block. Otherwise what comes before the first
  // block is stage 0 on IPU 0.
  void set_block(int ipu, int stage, int phase, const std::string& name, bool scoped);
  ir::Location location() const;
  // " (model.py:42)", or nothing.
  std::string place() const;
  void warn_once(const std::string& text);

  // Takes down what the model uses and we do not have; finish() raises it, with all of its like.
  void refuse(const std::string& op, const support::UnsupportedError& error,
              const std::vector<const ir::Value*>& stand_ins);
  // Whether the op makes what stands for a refused one's results.
  bool is_stand_in(const ir::Op* op) const { return stand_ins_.contains(op); }
  const Refusals& refusals() const { return refusals_; }

  // Torch turns exceptions that cross it into its own; the last one is kept here. nullptr: it is
  // one of Python's, which gets through.
  void remember(std::exception_ptr error, std::string text);
  const std::string& error_text() const { return error_text_; }
  bool is_cause_of(const std::string& text) const;  // the remembered error of another one's text
  // Rethrows the remembered error, with what was refused before it, when `text` stems from it.
  void rethrow_if_cause_of(const std::string& text) const;

 private:
  std::vector<at::Tensor> make_inputs();
  void add_state(const NamedTensor& entry);
  void lend(const NamedTensor& entry);
  ir::Value* constant(const at::Tensor& tensor);  // of main
  [[noreturn]] void refuse_host_tensor(const at::Tensor& tensor) const;
  void place_hooks();   // of parameters: with what uses them
  void check_blocks();  // UserError for ops outside of scopes; places those before the first block
  ir::Value* bring(ir::Value* value, const Root* owner) override;
  ir::Value* join(ir::Value* data, ir::Value* history, const Root* owner) override;
  ir::Value* cut(ir::Value* value);  // without its history
  std::vector<size_t> return_written_inputs();
  ir::Value* begin_leaf(ir::Value* value);
  void refuse_in_region() const;
  void check_memory() const;  // UserError for state that has other memory than before
  bool in_region() const { return !regions_.empty() && !function_; }
  void store(Root& root, const Geometry& geometry, ir::Value* value, History* history);
  void send_through(const at::Tensor& tensor, ir::Value* after);
  void restore_written();  // to what was held before the innermost region
  std::vector<at::Tensor> take_results(ir::Op* op, const std::vector<Region::Written>& written,
                                       const std::vector<at::Tensor>& outputs);

  // A tensor of the user's, as it was before the trace; a constant has no name.
  struct Lent {
    std::string name;
    at::Tensor tensor;
    c10::Device device;
    caffe2::TypeMeta dtype;
    c10::Storage storage;
  };

  TraceRequest request_;
  std::unique_ptr<ir::Module> module_;
  ir::Builder builder_;
  bool has_leaves_ = false;
  bool follows_state_;  // in inference, for what torch.autograd.grad may ask
  Memory memory_;
  std::vector<NamedTensor> slots_;
  std::vector<const Root*> inputs_;
  std::vector<Lent> lent_;
  std::unordered_set<const c10::StorageImpl*> frozen_;
  bool moves_host_ = false;
  std::unordered_set<const ir::Value*> active_;
  std::unordered_map<const ir::Value*, ir::Value*> detached_;
  ir::Op* noted_ = nullptr;  // the last op that note_new_ops saw
  std::vector<ir::Symbol> scopes_;
  ir::Symbol labels_;
  MultiConvs multi_convs_{builder_};
  bool has_blocks_ = false, blocks_are_scopes_ = false;
  std::set<std::string> warned_;
  Regions regions_{builder_};
  KnownValues known_values_{regions_}, of_finite_{regions_, true};
  std::optional<FunctionTrace> function_;
  std::set<const ir::Op*> hooks_;  // calls that stand for hooks of gradients
  Refusals refusals_;
  std::unordered_set<const ir::Op*> stand_ins_;
  std::exception_ptr error_;
  std::string error_text_;
  Tracer* outer_;
};

// While it lives, this thread's dispatcher calls come to the tracer.
class TraceGuard {
 public:
  TraceGuard();
  ~TraceGuard();
};

// While it lives, torch works as if there were no trace, and without autograd.
class PauseGuard {
 public:
  PauseGuard();
  ~PauseGuard();

 private:
  struct Guards;
  std::unique_ptr<Guards> guards_;
};

}  // namespace poptorch::frontend
