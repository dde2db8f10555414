// Holds one running trace: the graph being built, the value of every torch tensor in it, and the
// user's place in the model. `trace` is the entry point; the dispatcher's handler (dispatch.cpp)
// does the work while the user's forward runs.
//
// The user's module stays as it is: the tracer recognises parameters and buffers by their storage.
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

#include "frontends/torch/tracer/graph/carried_values.hpp"
#include "frontends/torch/tracer/graph/function.hpp"
#include "frontends/torch/tracer/graph/known_values.hpp"
#include "frontends/torch/tracer/graph/multi_conv.hpp"
#include "frontends/torch/tracer/graph/refusals.hpp"
#include "frontends/torch/tracer/graph/region.hpp"
#include "frontends/torch/tracer/values/memory.hpp"
#include "ir/builder.hpp"
#include "support/flat_map.hpp"

namespace poptorch::frontend {

struct NamedTensor {
  std::string name;  // the module path, which names the state slot
  at::Tensor tensor;
  bool is_buffer = false;
  at::Tensor host = {};  // holds all replicas' values if `tensor` holds one's
};

struct TraceRequest {
  std::vector<at::Tensor> inputs;        // examples of one micro-batch: only shape and dtype count
  std::vector<std::string> input_names;  // empty: inputs are named by number
  std::vector<NamedTensor> state;
  bool training = false;
  // Is set for a LibTorch program. Without hooks that report the running module, an op belongs to
  // the module whose tensors it reads.
  bool without_python = false;
  // Is called, if `without_python` is set, with each slot that an op is about to read.
  std::function<void(const std::string&)> before_use = {};
  // Returns the user's line that is running; absent if that is not known.
  std::function<ir::Location()> locate = {};
};

struct TraceOutput {
  int index = -1;        // among the graph's outputs
  at::Tensor host = {};  // if index is -1: what the model returned, a host tensor or empty
};

struct TraceResult {
  std::unique_ptr<ir::Module> module;
  std::vector<TraceOutput> outputs;
  // Lists the inputs that forward wrote, by number. Their final values are the graph's last
  // outputs, in this order.
  std::vector<size_t> written_inputs;
  std::vector<NamedTensor> state;  // one entry per slot: no aliases, no empty tensors
};

using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Runs `forward` on stand-ins of the inputs and records it. Throws UserError and UnsupportedError.
TraceResult trace(const TraceRequest& request, const Forward& forward);

class Tracer : private Cursor {
 public:
  explicit Tracer(const TraceRequest& request);
  ~Tracer() override;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Returns the trace of this thread, or nullptr.
  static Tracer* current();

  // Returns the outputs of `forward` for stand-ins of the inputs.
  std::vector<at::Tensor> run(const Forward& forward);
  TraceResult finish(const std::vector<at::Tensor>& outputs);

  ir::Builder& builder() override { return builder_; }
  Cursor& cursor() { return *this; }
  ir::Module& module() { return *module_; }
  bool training() const { return request_.training; }
  // Returns whether gradients may be requested: in inference, only those of leaves that forward
  // makes.
  bool follows_gradients() const { return request_.training || has_leaves_; }
  // Returns whether gradients by parameters may be requested, in training or by
  // torch.autograd.grad.
  bool follows_state() const { return follows_state_; }
  bool without_python() const { return request_.without_python; }

  // Returns the value that `tensor` holds now, in its narrowed dtype. An unknown tensor becomes a
  // constant. Throws UserError for a tensor of another trace.
  ir::Value* read(const at::Tensor& tensor);
  // Makes `tensor` hold `value` (of its shape and narrowed dtype) from now on.
  void write(const at::Tensor& tensor, ir::Value* value);
  // Returns a new tensor that holds `value`.
  at::Tensor make_tensor(ir::Value* value, c10::ScalarType dtype);
  // Returns a tensor with the contents of a host tensor, or an undefined one for an undefined one.
  at::Tensor make_constant(const at::Tensor& value);
  // Returns a tensor without elements. It holds nothing, and no op reads it: an operator's result
  // from it is known on the host.
  at::Tensor make_empty(const ir::Shape& shape, c10::ScalarType dtype);
  // Prepares for ops that read the root. In LibTorch's modules, its slot determines which module
  // and block runs.
  void enter_module_of(const Root& root);
  // Returns true for an ordinary host tensor: not a member of a module, nor made or written by the
  // trace. read() accepts it only where an op moves it to the device or if it has 0 dimensions.
  // Always returns false for a LibTorch program.
  bool is_of_host(const at::Tensor& tensor) const;
  // Makes constants of those members of modules that are neither parameters nor buffers.
  void freeze(const std::vector<at::Tensor>& members);
  // Returns the constants among the user's tensors that forward has written.
  std::vector<at::Tensor> written_members() const;
  // Lists a tensor of the trace, so that its value, if known, outlives the trace with it.
  void note_made(const at::Tensor& tensor) { made_.add(tensor); }
  // Carries the known values of the trace's tensors that are still in use over to the host.
  void carry_known_values();
  // Returns the text of the graph so far, and the values that the tensors hold in it.
  std::string text(const std::vector<at::Tensor>& tensors);
  // Returns the contents of `tensor` on the host if they depend on no input, no state and no random
  // number.
  std::optional<at::Tensor> known(const at::Tensor& tensor);
  bool is_buffer(const std::string& slot) const;
  // Returns the truth value that `tensor` has when all numbers are finite, if that makes it known.
  // The program then ends its run where the value differs.
  std::optional<bool> expected(const at::Tensor& tensor);
  // Returns the root of `tensor`; an unknown tensor becomes a constant. Throws UserError for a
  // tensor of another trace and for an ordinary host tensor.
  Root& root_of(const at::Tensor& tensor);
  // Returns true if gradients reach a parameter or a leaf from `value`.
  bool is_active(ir::Value* value) const { return active_.contains(value); }
  // Brings `active_` up to date with ops emitted since the last call.
  void note_new_ops();

  // Record a torch.autograd.Function with its own backward, in three steps. begin_function()
  // returns the tensors that stand for the arguments in its forward. begin_backward() returns those
  // that stand for the gradients of its floating outputs in its backward (undefined for other
  // outputs). end_function() returns the outputs. Its `gradients` has one entry per floating
  // argument, undefined for none.
  bool in_function() const { return function_.has_value(); }
  std::vector<at::Tensor> begin_function(const std::string& name,
                                         const std::vector<at::Tensor>& arguments);
  std::vector<at::Tensor> begin_backward(const std::vector<at::Tensor>& outputs);
  std::vector<at::Tensor> end_function(const std::vector<at::Tensor>& gradients);
  void abandon_function();  // or a hook; after an error, as if it had not begun

  // Returns whether `tensor` depends on a leaf that forward made, in inference: only gradients by
  // these are usual there.
  bool follows_leaf(const at::Tensor& tensor);
  // Records that `results` come from the arguments by something whose backward is not recorded.
  // gradients() refuses to pass through it: the message has the prefix `topic` and names `what`.
  void close_to_gradients(const std::string& topic, const std::string& what,
                          const std::vector<at::Tensor>& arguments,
                          const std::vector<at::Tensor>& results);

  // Record a gradient hook of `tensor`. begin_hook() returns the tensor that stands for its
  // gradient; end_hook() takes the hook's result. All uses of `tensor`, earlier ones too, send
  // their gradient through the hook.
  at::Tensor begin_hook(const at::Tensor& tensor);
  void end_hook(const at::Tensor& tensor, const at::Tensor& gradient);
  // Replaces uses of the tensors, which are a function's first arguments, by its first results.
  void use_results(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& results);

  // Returns a new tensor that holds the value of `tensor`, for torch.autograd.grad to
  // differentiate. Its gradient comes only from uses of the new tensor.
  at::Tensor make_leaf(const at::Tensor& tensor);
  // Returns gradients of the inputs by seeds of the outputs; undefined where nothing depends on
  // one. Throws UnsupportedError inside regions.
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs,
                                    const std::vector<at::Tensor>& seeds,
                                    const std::vector<at::Tensor>& inputs);

  // Record a loop's body or a branch (in inference only). begin_region() returns the tensors that
  // stand for the arguments in it. end_region() ends it with the results `outputs`.
  // abandon_region() ends it after an error, as if it had not begun.
  std::vector<at::Tensor> begin_region(const std::vector<at::Tensor>& arguments);
  std::shared_ptr<Region> end_region(const std::vector<at::Tensor>& outputs);
  void abandon_region();
  // Emit the op that runs regions. Return tensors like `outputs`, which one of the regions
  // returned.
  std::vector<at::Tensor> repeat(Region& body, int64_t count,
                                 const std::vector<at::Tensor>& outputs);
  std::vector<at::Tensor> branch(const at::Tensor& condition, Region& then_region,
                                 Region& else_region, const std::vector<at::Tensor>& outputs);

  // Stamps the user's place on the ops that follow.
  void enter_call();
  // Sets whether `read` accepts host tensors, for an op that moves them.
  void set_moves_host(bool moves) { moves_host_ = moves; }
  void push_scope(ir::Symbol scope) { scopes_.push_back(scope); }
  void pop_scope();
  // Sets the labels of the ops that follow; returns the previous labels.
  ir::Symbol set_labels(ir::Symbol labels) { return std::exchange(labels_, labels); }
  MultiConvs& multi_convs() { return multi_convs_; }
  // Makes the ops that follow run on this IPU in this stage; -1: they name none. `scoped` means
  // that a scope ends the block: then every op of the model must be in a block. Otherwise ops
  // before the first block are in stage 0 on IPU 0.
  void set_block(int ipu, int stage, int phase, const std::string& name, bool scoped);
  ir::Location location() const;
  // Returns " (model.py:42)", or an empty string.
  std::string place() const;
  void warn_once(const std::string& text);

  // Records an unsupported use in the model; finish() raises it together with all others.
  void refuse(const std::string& op, const support::UnsupportedError& error,
              const std::vector<const ir::Value*>& stand_ins);
  // Returns whether the op makes a stand-in for a refused op's results.
  bool is_stand_in(const ir::Op* op) const { return stand_ins_.contains(op); }
  const Refusals& refusals() const { return refusals_; }

  // Keeps the last exception, because torch replaces exceptions that cross it by its own. nullptr
  // stands for a Python exception, which passes unchanged.
  void remember(std::exception_ptr error, std::string text);
  const std::string& error_text() const { return error_text_; }
  bool is_cause_of(const std::string& text) const;  // whether the remembered error caused `text`
  // Rethrows the remembered error, with the refusals before it, if it caused `text`.
  void rethrow_if_cause_of(const std::string& text) const;

 private:
  std::vector<at::Tensor> make_inputs();
  void add_state(const NamedTensor& entry);
  void lend(const NamedTensor& entry);
  ir::Value* constant(const at::Tensor& tensor);  // in the main graph
  [[noreturn]] void refuse_host_tensor(const at::Tensor& tensor) const;
  void place_hooks();   // places hooks of parameters with their users
  void check_blocks();  // rejects ops outside of scopes; places those before the first block
  ir::Value* bring(ir::Value* value, const Root* owner) override;
  ir::Value* join(ir::Value* data, ir::Value* history, const Root* owner) override;
  ir::Value* cut(ir::Value* value);  // returns it without its history
  std::vector<size_t> return_written_inputs();
  ir::Value* begin_leaf(ir::Value* value);
  void refuse_in_region() const;
  void refuse_closed(const std::vector<at::Tensor>& outputs, const std::vector<ir::Value*>& inputs);
  void check_memory() const;  // throws UserError for state whose memory was replaced
  void check_members();       // throws UserError for constants that forward writes and reads
  bool in_region() const { return !regions_.empty() && !function_; }
  void store(Root& root, const Geometry& geometry, ir::Value* value, History* history);
  void send_through(const at::Tensor& tensor, ir::Value* after);
  void restore_written();  // restores what the innermost region wrote; sets `after`
  std::vector<at::Tensor> take_results(ir::Op* op, const std::vector<Region::Written>& written,
                                       const std::vector<at::Tensor>& outputs);

  // Holds a user's tensor that became a constant, and its contents before forward.
  struct Member {
    at::Tensor tensor;
    const Root* root;
    ir::Value* initial;
  };

  // Holds a user's tensor as it was before the trace; the name of a constant is empty.
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
  bool follows_state_;  // in training, and for torch.autograd.grad if gradients are enabled
  Memory memory_;
  std::vector<NamedTensor> slots_;
  std::vector<const Root*> inputs_;
  std::vector<Lent> lent_;
  std::unordered_set<const c10::StorageImpl*> frozen_;
  std::vector<Member> members_;
  MadeTensors made_;
  bool moves_host_ = false;
  support::FlatSet<const ir::Value*> active_;
  support::FlatSet<const ir::Value*> of_leaves_;  // values that depend on leaves of forward
  // A function's result without gradient, and what it was made of.
  struct Closed {
    std::string topic, what;
    std::vector<ir::Value*> arguments;
  };
  std::unordered_map<const ir::Value*, Closed> closed_;
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

// Sends this thread's dispatcher calls to the tracer while the guard lives.
class TraceGuard {
 public:
  TraceGuard();
  ~TraceGuard();
};

// Makes torch work as if no trace were running, and without autograd, while the guard lives.
class PauseGuard {
 public:
  PauseGuard();
  ~PauseGuard();

 private:
  struct Guards;
  std::unique_ptr<Guards> guards_;
};

}  // namespace poptorch::frontend
