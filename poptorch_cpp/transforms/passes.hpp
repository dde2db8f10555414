// The passes, IR → IR. Each is one free function; its contract is the comment above its line here.
// What they need to know, and what they find out, is in the module: Module::execution().
// The table names them for the pipeline's wrapper, POPTORCH_DUMP and the golden tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.hpp"

namespace poptorch::transforms {

// Deletes ops whose results nobody uses and that change nothing. Keeps what an after() of a live op
// names. State slots, streams and graphs stay.
void eliminate_dead_ops(ir::Module& module);

// Replaces an op by an earlier equal one of its graph: same row, operands, attributes; beyond the
// forward pass also same placement. Of two forward ops, the lower stage's placement stays.
// Reads of memory that is written are merged only when no write lies between. Random ops and ops
// with effects are never merged; reads of one slot (`variable`) always are.
void merge_common_subexpressions(ir::Module& module);

// Applies the local rewrites of canonicalise.cpp to a fixed point: what does nothing goes, chains
// of views, casts and slices become one, matrix products take transposes and biases in, log_softmax
// with nll_loss becomes softmax_cross_entropy. Keeps every bit (see there for the two exceptions).
// Passes over matches that would move a read of memory that the graph writes: so best before
// updates are lowered. `detach` goes unless training.
void canonicalise(ir::Module& module);

// Replaces ops of constants by their results, if the reference kernel gives the bits of every
// other (data movement, integers, exact formulas) and the constant does not grow beyond 1 MiB.
// Leaves a broadcast scalar alone.
void fold_constants(ir::Module& module);

// Replaces calls by the ops of the called graph, and deletes the graphs that nobody calls any
// more (when there is a @main). While training, a call that names its gradient graph stays:
// `differentiate` needs it.
void inline_calls(ir::Module& module);

// Adds to @main the gradients of the final loss for the parameters of the optimiser, each as a
// `parameter_gradient` op, scaled by the loss scaling. The final loss is the `identity_loss` on
// which no other depends. Needs: @main, an optimiser. Guarantees: neither `identity_loss` nor
// `detach` is left in any graph, no call names a gradient; backward ops carry placement, scope and
// location of their forward op and its id as forward_id. Does nothing unless training. Refuses
// (UserError): no loss, several final losses; (UnsupportedError): an op without gradient on the way
// from a parameter.
void differentiate(ir::Module& module);

// Adds outputs to @main for the anchors that name its inputs ("input0"), the final loss ("loss") or
// the output of a module by its path: the last value that is made in its scope.
void anchor_values(ir::Module& module);

// Likewise for `Gradient___<parameter>`: the operands of the `parameter_gradient` ops.
void anchor_gradients(ir::Module& module);

// Every name that an anchor of the traced module could have.
std::vector<std::string> anchor_names(const ir::Module& traced);

// Behind every op that computes floating-point numbers, a `check_floats`: it ends the run where an
// operation is invalid, divides by zero or overflows.
void check_floats(ir::Module& module);

// In front of every op that reads or writes by index, a `check_indices`: it ends the run where an
// index is out of range, which otherwise reads zeros and writes nothing. Does nothing unless
// the execution asks for it.
void check_indices(ir::Module& module);

// Makes every op that computes float16 or bfloat16 compute in f32 and round at random
// (`stochastic_cast`), casts included. Left as they are: what only moves data, foreign kernels,
// collectives, and ops that write, which have an attribute for it. Needs: no updates yet. Does
// nothing unless the execution asks for it.
void round_stochastically(ir::Module& module);

// Replaces the `parameter_gradient` ops by reductions and updates. With gradient accumulation the
// gradients are added up in state slots `accumulator.<parameter>`, micro-batch by micro-batch, and
// what follows runs in the context accumulate_outer, resetting them. Then: sum over replicas,
// division (mean reduction, loss scaling), update op. Hyper-parameters are f64 scalars: constants,
// or slots where the spec says variable. A parameter without gradient is left alone. With a bound
// on the norm of all gradients, and with automatic loss scaling, every update waits for all
// gradients.
void lower_optimiser(ir::Module& module);

using PassFunction = void (*)(ir::Module&);

struct PassRow {
  std::string_view name;
  PassFunction run;
  bool optional = false;  // without it programs are slower or larger, and give the same
};

// Every pass, in no particular order: compile/pipeline.cpp is the order.
const std::vector<PassRow>& all_passes();

}  // namespace poptorch::transforms
