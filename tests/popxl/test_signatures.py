"""Functions and classes of PopXL have the parameter names, order and defaults that programs use."""

import inspect

import popxl
import popxl.fp8_utils
import popxl.transforms
import popxl_addons as addons
import pytest
from popxl import ops

# One function per line; an indented line continues the previous one.
SIGNATURES = {
    ops: """
abs(t)
ceil(t)
floor(t)
sign(t)
negate(t)
sqrt(t)
exp(t)
exp_(t)
log(t)
log2(t)
sin(t)
cos(t)
tanh(t)
isnan(t)
isinf(t)
isfinite(t)
logical_not(t)
clip(t, min=-inf, max=inf)
increment_mod(t, increment, modulus)
increment_mod_(t, increment, modulus)
identity(t, output_name=None)
detach(t)
detach_(t)
cast(t, data_type)
add(lhs, rhs)
add_(lhs, rhs)
sub(lhs, rhs)
mul(lhs, rhs)
div(lhs, rhs)
fmod(lhs, rhs)
pow(t, e)
maximum(*ts)
equal(lhs, rhs)
greater(input, other)
logical_and(lhs, rhs)
logical_or(lhs, rhs)
where(condition, lhs, rhs)
scaled_add(X, Y, a=1.0, b=1.0)
scaled_add_(X, Y, a=1.0, b=1.0)
relu(t)
relu_(t)
gelu(t)
gelu_(t)
geluerf(t)
geluerf_(t)
swish(t)
swish_(t)
softmax(t, axis)
batch_norm_inference(t, scale, bias, mean, var, epsilon=1e-05, momentum=0.9)
group_norm(t, weight, bias, num_groups, eps=1e-05)
layer_norm(t, weight, bias, eps=1e-05)
dropout(t, seed_tensor, p)
shaped_dropout(t, seed_tensor, shape, ratio)
sum(t, axis=None, keepdims=False)
mean(t, axis=None, keepdims=False)
median(t, axis=None, keepdims=False)
min(t, axis=None, keepdims=False)
max(t, axis=None, keepdims=False)
prod(t, axis=None, keepdims=False)
sumsquare(t, axis=None, keepdims=False)
l1(t, axis=None, keepdims=False)
l2(t, axis=None, keepdims=False)
lamb_square(t)
logsum(t, axis=None, keepdims=False)
logsumexp(t, axis=None, keepdims=False)
argmin(t, dim=0, keepdim=False)
argmax(t, dim=0, keepdim=False)
cumsum(t, dim=0)
topk(t, k, axis, largest, sorted, available_memory_proportion=None)
histogram(t, levels, absolute_of_input)
reshape(t, shape)
reshape_(t, shape)
flatten(t)
flatten_(t)
squeeze(t, axes=None)
transpose(t, permutation=None)
transpose_(t, permutation=None)
concat(ts, axis=0)
concat_(ts, axis=0)
split(t, splits, axis=0)
slice(t, start=None, stop=None, step=None, axis=None)
slice_(t, start=None, stop=None, step=None, axis=None)
subsample(t, strides)
gather(t, indices, axis=0, available_memory_proportion=None, zero_OOR=False)
tied_gather(t, indices, axis=0, available_memory_proportion=None, zero_OOR=False)
groupedgather(t, indices, axis=0, group_size=1, available_memory_proportion=None, zero_OOR=False)
scatter(t, indices, values, axis=0, available_memory_proportion=None)
scatter_reduce(data, indices, reduction, initial_values=None, axis=0, axis_size=None,
    enable_index_broadcast=True, available_memory_proportion=None)
grouped_scatter_reduce(data, indices, reduction, initial_values=None, axis=0, axis_size=None,
    group_size=1, enable_index_broadcast=True, available_memory_proportion=None)
dynamic_slice(t, index, axes, sizes, no_overlap)
dynamic_update(t, index, t_update, axes, sizes, no_overlap)
dynamic_update_(t, index, t_update, axes, sizes, no_overlap)
onehot(t, num_classes, values, axis)
matmul(lhs, rhs, available_memory_proportion=None, output_type=None, partials_type=None)
matmul_pow2scaled(lhs, rhs, log2_scale, available_memory_proportion=None)
conv(t, weight, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1,
    pad_type='not_set', available_memory_proportions=None, partials_types=None,
    enable_conv_dithering=None)
conv_pow2scaled(t, weight, log2_scale, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1),
    groups=1, pad_type='not_set', available_memory_proportions=None, enable_conv_dithering=None)
conv_transpose(t, weight, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1,
    pad_type='not_set', output_padding=(), output_shape=(), available_memory_proportions=None,
    partials_types=None, enable_conv_dithering=None)
conv_transpose_pow2scaled(t, weight, log2_scale, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1,
    1), groups=1, pad_type='not_set', output_padding=(), output_shape=(),
    available_memory_proportions=None, enable_conv_dithering=None)
average_pool(t, kernel_size, stride=None, padding=None, out_pads=None, dilation=None,
    in_dilations=None, auto_pad='not_set', ceil_mode=False)
max_pool(t, kernel_size, stride=None, padding=None, out_pads=None, dilation=None,
    in_dilations=None, auto_pad='not_set', ceil_mode=False, storage_order='row')
interpolate(t, scale_factor=(1.0, 1.0, 1.0, 1.0), mode='nearest',
    nearest_mode='round_prefer_floor', coordinate_transformation_mode='half_pixel')
roi_align(t, rois, batch_index, output_size, spatial_scale, sampling_ratio)
nll_loss(probs, labels, ignore_index=None, reduction='mean', log_prob=False)
nll_loss_with_softmax_grad(probs, labels, loss_grad=1, ignore_index=None, reduction='mean')
pow2scale_cast_to_fp8(t, log2_scale, data_type)
pow2scale_cast_from_fp8(t, log2_scale, data_type)
random_uniform(seed_tensor, shape, low=0.0, high=1.0, dtype=dtypes.float32)
random_normal(seed_tensor, shape, mean=0.0, std=1.0, dtype=dtypes.float32)
create_random_seed(seed, modifier)
split_random_seed(seed, n=2)
init(shape, dtype, name=None, init_type='zero', meta_shape=None)
host_load(h2d_stream, name=None)
host_store(d2h_stream, t)
remote_load(remote_buffer, offset, name=None)
remote_load_(remote_buffer, offset, t)
remote_store(remote_buffer, offset, t)
ipu_copy(t, destination, source=None)
io_tile_copy(t)
remote_code_load(graph, destination)
print_tensor(t, title=None, print_self=True, print_gradient=False, summarise_threshold=1000,
    edge_items=3, max_line_width=75, digits=8, float_format='auto', separator=' ',
    open_bracket='[', close_bracket=']')
call(graph, *inputs, inputs_dict=None)
call_with_info(graph, *inputs, inputs_dict=None, check_inputs=True)
repeat(graph, repeat_count, *inputs, inputs_dict=None)
repeat_with_info(graph, repeat_count, *inputs, inputs_dict=None, check_inputs=True)
conditional(cond, then_branch, else_branch, then_inputs=None, else_inputs=None,
    then_inputs_dict=None, else_inputs_dict=None)
conditional_with_info(cond, then_branch, else_branch, then_inputs=None, else_inputs=None,
    then_inputs_dict=None, else_inputs_dict=None, check_inputs=True)
    """,
    ops.collectives: """
replicated_all_reduce(t, op='add', group=None)
replicated_all_reduce_(t, op='add', group=None)
replicated_all_gather(t, axis=0, group=None, output_shape='auto')
replicated_reduce_scatter(t, op='add', group=None,
    configure_output_for_replicated_tensor_sharding=False)
replica_sharded_slice(t, group=None)
replicated_slice(t, axis=0, group=None)
all_reduce(ts, ipus=None, op='add')
all_reduce_identical_inputs(ts, ipus=None, op='add')
all_reduce_identical_grad_inputs(ts, ipus=None, op='add')
    """,
    ops.var_updates: """
accumulate_(t, X, f=None)
accumulate_square_(t, X, f=1.0)
accumulate_mean_(t, X, step)
accumulate_moving_average_(t, X, f)
accumulate_moving_average_square_(t, X, f)
sparse_accumulate_(t, X, indices, axis=0, f=None, W=None)
accumulator_scale_(t, f)
accumulator_zero_(t)
adam_updater(acc_first_order, acc_second_order, weight=None, time_step=None, weight_decay=None,
    beta1=None, beta2=None, epsilon=1e-07)
lamb_updater(acc_first_order, acc_second_order, weight=None, time_step=None, weight_decay=None,
    beta1=None, beta2=None, epsilon=1e-07)
adamax_updater(acc_first_order, acc_second_order, weight=None, time_step=None, weight_decay=None,
    beta1=0.9, epsilon=1e-07)
adam_var_update(t, x, r1, r2, learning_rate=None, max_weight_norm=None)
copy_var_update_(t, X)
    """,
    popxl: """
variable(data, dtype=None, name=None, downcast=True, replica_grouping=None, retrieval_mode=None,
    log2_scale=None, nan_on_overflow=None)
constant(data, dtype=None, name=None, downcast=True, log2_scale=None, nan_on_overflow=None)
graph_input(shape, dtype, name=None, by_ref=False, meta_shape=None)
graph_output(t)
TensorSpec(shape, dtype, meta_shape=())
remote_variable(data, remote_buffer, offset=0, dtype=None, name=None, downcast=True,
    replica_grouping=None, retrieval_mode='one_per_group', log2_scale=None, nan_on_overflow=None)
remote_replica_sharded_variable(data, remote_buffer, offset=0, dtype=None, name=None,
    downcast=True, replica_grouping=None, retrieval_mode='one_per_group', log2_scale=None,
    nan_on_overflow=None)
replica_sharded_variable(data, dtype=None, name=None, downcast=True, replica_grouping=None,
    shard_over=None, retrieval_mode='one_per_group', log2_scale=None, nan_on_overflow=None)
replica_sharded_buffer(shape, dtype, replica_grouping=None, shard_over=None, entries=1)
RemoteBuffer(tensor_shape, tensor_dtype, entries)
h2d_stream(shape, dtype, name=None)
d2h_stream(shape, dtype, name=None)
create_seeds(seed, offset=0, batches_per_step=1, gradient_accumulation_factor=1, replicas=1)
in_sequence(mode=True)
Ir(replication=1)
Session(ir, device_desc='cpu', weights_to_host_on_exit=True)
    """,
    popxl.Ir: """
create_graph(self, fn, *args, **kwargs)
create_empty_graph(self, name=None)
dot_checkpoint(self, check, save_dir=None)
replica_grouping(self, stride=1, group_size=None)
    """,
    popxl.Session: """
run(self, inputs=None, downcast_inputs=True)
    """,
    popxl.Tensor: """
copy_to_ipu(self, destination, source=None)
    """,
    popxl.RemoteBuffer: """
validate_tensor_matches_buffer(self, t, num_shards=1)
    """,
    popxl.fp8_utils: """
host_pow2scale_cast_to_fp8(src, dtype, log2_scale=0, nan_on_overflow=True)
host_pow2scale_cast_from_fp8(src, dtype, log2_scale=0)
host_fp8_mse_scale(src, dtype)
host_fp8_mse_scale_pb(src, dtype)
    """,
    popxl.transforms: """
autodiff(graph, grads_provided=None, grads_required=None, called_graphs_grad_info=None,
    return_all_grad_graphs=False)
decompose_sum(graph)
merge_exchange()
io_tile_exchange(verify_overlap=True)
    """,
    addons: """
VariableFactory(data_iter, dtype=None, name=None, by_ref=False, replica_grouping=None,
    shard_over=1)
Module(cache=False, grad_inlining_error='error')
autodiff_with_accumulation(graph, tensors_to_accumulate_grads, grads_provided=None,
    grads_required=None, called_graphs_grad_info=None, replica_groupings=None)
recompute_graph(grad_graph)
pipelined_execution(steps)
RemoteHandle(buffer, row_offset=0, shard_group=None)
named_variable_buffers(factories, entries=1, shard_over_dict=True)
    """,
    addons.DotTree: """
insert(self, key, value, overwrite=False)
pack(keys, values)
to_mapping(self, other)
    """,
    addons.NamedVariableFactories: """
init(self, prefix=None, empty=False, memmap_dir=None, read_only_if_exists=False)
    """,
    addons.Module: """
add_variable_input(self, name, data_iter, dtype=None, by_ref=False, replica_grouping=None,
    overwrite=False)
    """,
    addons.BoundGraph: """
call(self, *targs, args=None)
    """,
    addons.layers: """
Linear(out_features, bias=True, replica_grouping=None)
    """,
    addons.ops: """
cross_entropy_with_grad(x, labels, loss_scaling=1, ignore_index=None, reduction='mean')
host_load(array, dtype, name)
host_store(t)
    """,
}


def lines():
    for owner, text in SIGNATURES.items():
        for line in text.strip().replace("\n    ", " ").splitlines():
            name, parameters = line.strip().split("(", 1)
            yield pytest.param(owner, name, parameters.removesuffix(")"), id=name)


def shown(parameter):
    marks = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    default = parameter.default
    text = marks.get(parameter.kind, "") + parameter.name
    if default is parameter.empty:
        return text
    return f"{text}=dtypes.{default.name}" if default is popxl.float32 else f"{text}={default!r}"


@pytest.mark.parametrize("owner, name, parameters", list(lines()))
def test_parameters_are_those_of_popxl(owner, name, parameters):
    signature = inspect.signature(getattr(owner, name))
    assert ", ".join(map(shown, signature.parameters.values())) == parameters
