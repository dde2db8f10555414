// The passes, IR → IR. Each is one free function; its contract is the comment above its
// declaration. Passes read their settings from Module::execution(), and store what they find out
// there. The table names the passes for the pipeline's wrapper, POPTORCH_DUMP and the golden tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.hpp"

namespace poptorch::transforms {

// Deletes ops without effect whose results are unused. Keeps ops that an after() of a live op
// names. State slots, streams and graphs stay.
void eliminate_dead_ops(ir::Module& module);

// Replaces an op by an earlier equal one of its graph: same row, operands, attributes; outside the
// forward pass also same placement. If two forward ops are merged, the lower stage's placement
// stays. Reads of memory that is written are merged only if no write lies between them. Random ops
// and ops with effects are never merged; reads of one slot (`variable`) always are.
void merge_common_subexpressions(ir::Module& module);

// Applies the local rewrites of canonicalise.cpp to a fixed point. They remove ops that do nothing,
// merge chains of views, casts and slices, and fuse transposes and biases into matrix products.
// log_softmax with nll_loss becomes softmax_cross_entropy. Results are bit-identical, with the two
// exceptions named there. Skips matches that would move a read of memory that the graph writes, so
// it works best before updates are lowered. Removes `detach` unless training.
void canonicalise(ir::Module& module);

// Replaces ops on constants by their results, if the reference kernel is bit-identical to every
// other (data movement, integers, exact formulas). Keeps the op if the constant would grow beyond
// 1 MiB, and keeps broadcast scalars.
void fold_constants(ir::Module& module);

// Replaces calls by the ops of the called graph, and deletes the graphs that are no longer called
// (if there is a @main). While training, a call that names its gradient graph stays:
// `differentiate` needs it.
void inline_calls(ir::Module& module);

// Adds to @main the gradients of the final loss for the parameters of the optimiser, each as a
// `parameter_gradient` op, scaled by the loss scaling. The final loss is the `identity_loss` on
// which no other depends. Requires @main and an optimiser. Afterwards neither `identity_loss` nor
// `detach` is left in any graph, and no call names a gradient. Backward ops carry placement, scope
// and location of their forward op and its id as forward_id. Does nothing unless training. Raises
// UserError if the number of final losses is not one, and UnsupportedError for an op without
// gradient on the way from a parameter.
void differentiate(ir::Module& module);

// Replaces each batch_norm_inference by batch_norm_factors and scale_shift, which is fused with the
// op that makes x. Runs after `differentiate`, because the two have no gradients.
void expand_batch_norms(ir::Module& module);

// Adds outputs to @main for the anchors that name its inputs ("input0"), the final loss ("loss") or
// the output of a module by its path: the last value made in its scope.
void anchor_values(ir::Module& module);

// Adds outputs to @main for anchors `Gradient___<parameter>`: the operands of `parameter_gradient`.
void anchor_gradients(ir::Module& module);

// Returns every name that an anchor of the traced module could have.
std::vector<std::string> anchor_names(const ir::Module& traced);

// Inserts a `check_floats` after every op that computes floating-point numbers. It ends the run if
// an operation is invalid, divides by zero or overflows.
void check_floats(ir::Module& module);

// Inserts a `check_indices` before every op that reads or writes by index. It ends the run if an
// index is out of range, which otherwise reads zeros and writes nothing. Does nothing unless the
// execution asks for it.
void check_indices(ir::Module& module);

// Resolves the attribute `partials` of the ops that have one: "half" where the op or the execution
// asks for it and operands are float16, else the default. Runs after `differentiate`, and before
// types change for stochastic rounding.
void choose_partials(ir::Module& module);

// Makes every op that computes float16 or bfloat16 compute in f32 and round stochastically
// (`stochastic_cast`), casts included. Does not change ops that only move or choose data, exact
// ops, foreign kernels, collectives, and ops that write, which have an attribute for it. Must run
// before updates are lowered. Does nothing unless the execution asks for it.
void round_stochastically(ir::Module& module);

// Replaces the `parameter_gradient` ops by reductions and updates. With gradient accumulation, the
// gradients are added up in state slots `accumulator.<parameter>`, micro-batch by micro-batch. The
// ops that follow then run in the context accumulate_outer, and reset these slots. They are the sum
// over replicas, the division (mean reduction, loss scaling) and the update op. Hyper-parameters
// are f64 scalars: constants, or slots where the spec says variable. A parameter without gradient
// is not updated. With a bound on the norm of all gradients, and with automatic loss scaling, every
// update waits for all gradients. With stochastic rounding, an update or accumulation that directly
// follows reads the gradient before it was rounded.
void lower_optimiser(ir::Module& module);

using PassFunction = void (*)(ir::Module&);

struct PassRow {
  std::string_view name;
  PassFunction run;
  bool optional = false;  // without it programs are slower or larger, with equal results
};

// Returns every pass, in no particular order. compile/pipeline.cpp defines the order.
const std::vector<PassRow>& all_passes();

}  // namespace poptorch::transforms
