#include "program/declared.hpp"

#include <set>

#include "program/fail.hpp"

namespace poptorch::program {
namespace {

constexpr int kMostIoTiles = 192;

class Declared {
 public:
  explicit Declared(const Program& program) : program_(program) {}

  void run() {
    check_counts();
    for (const State& state : program_.states) check_state(state);
    for (const Stream& stream : program_.streams) check_stream(stream);
    for (const ir::RemoteBuffer& buffer : program_.remote_buffers) {
      refuse_defect("remote buffer", buffer.name, defect_of(buffer));
      note_name(buffers_, "remote buffer", buffer.name);
    }
    for (size_t i = 0; i < program_.stashes.size(); ++i) check_stash(i);
    for (const Tensor& tensor : program_.tensors) check_tensor(tensor);
  }

 private:
  void check_counts() const {
    const int64_t replicas = program_.replicas, batches = program_.micro_batches_per_run;
    if (replicas < 1 || batches < 1) {
      fail("replicas (", replicas, ") and micro-batches (", batches, ") are at least 1.");
    }
    if (program_.link_domain < 1 || program_.link_domain > ir::kLinkDomain) {
      fail("a link_domain of ", program_.link_domain, " IPUs: it has 1 to ", ir::kLinkDomain, ".");
    }
    if (program_.io_tiles < 0 || program_.io_tiles > kMostIoTiles) {
      fail(program_.io_tiles, " I/O tiles: an IPU has 0 to ", kMostIoTiles, ".");
    }
    const auto ipus = static_cast<int64_t>(program_.ipus.size());
    if (replicas > ir::kMaxReplicas || ipus > ir::kMaxIpus || replicas * ipus > kMaxIpusInAll) {
      fail(replicas, " replicas of ", ipus, " IPUs are more than ", kMaxIpusInAll, " IPUs in all.");
    }
    if (batches > kMaxMicroBatches) {
      fail(batches, " micro-batches are more than ", kMaxMicroBatches, ".");
    }
    for (const IpuProgram& ipu : program_.ipus) {
      for (int64_t bytes : {ipu.arena_bytes, ipu.state_bytes, ipu.constant_bytes, ipu.code_bytes,
                            ipu.tile_memory}) {
        if (bytes < 0 || bytes > kMaxBytes) fail("an IPU declares a size of ", bytes, " bytes.");
      }
    }
  }

  bool is_ipu(int64_t index) const {
    return index >= 0 && index < static_cast<int64_t>(program_.ipus.size());
  }

  static void refuse_defect(const char* what, Symbol name, const std::string& defect) {
    if (!defect.empty()) fail(what, " '", name, "': ", defect);
  }

  static void note_name(std::set<Symbol>& names, const char* what, Symbol name) {
    if (!names.insert(name).second) fail(what, " '", name, "' is declared twice.");
  }

  // Checks that groups of `size` replicas, `stride` apart, divide the replicas.
  void check_groups(const char* what, Symbol name, int size, int stride) const {
    if (size < 1 || stride < 1 || program_.replicas % (int64_t{size} * stride) != 0) {
      fail(what, " '", name, "' has groups of ", size, " by ", stride, " among ", program_.replicas,
           " replicas.");
    }
  }

  void check_state(const State& state) {
    const ir::StateSlot& slot = state.slot;
    refuse_defect("state", slot.name, defect_of(slot));
    note_name(states_, "state", slot.name);
    if (slot.group_size != 0) check_groups("state", slot.name, slot.group_size, slot.group_stride);
    if (state.ipu != -1 && !is_ipu(state.ipu)) {
      fail("state '", slot.name, "' is on IPU ", state.ipu, " of ", program_.ipus.size(), ".");
    }
    if (state.offset < 0 || state.offset > kMaxBytes) {
      fail("state '", slot.name, "' has offset ", state.offset, ".");
    }
    if (state.shards < 1 || state.shards > program_.replicas) {
      fail("state '", slot.name, "' is in ", state.shards, " shards on ", program_.replicas,
           " replicas.");
    }
  }

  void check_stream(const Stream& stream) {
    const Symbol name = stream.host.name;
    refuse_defect("stream", name, defect_of(stream.host));
    note_name(streams_, "stream", name);
    check_groups("stream", name, stream.group_size, stream.group_stride);
    if (stream.transfers < 0 || stream.transfers > kMaxMicroBatches) {
      fail("stream '", name, "' makes ", stream.transfers, " transfers.");
    }
    if (stream.keep == Keep::kEveryN &&
        (stream.period < 1 || stream.transfers % stream.period != 0)) {
      fail("stream '", name, "' keeps every ", stream.period, "th of ", stream.transfers,
           " transfers.");
    }
    if (stream.anchor < -1 || (stream.anchor < 0) != stream.anchored.empty() ||
        (stream.anchor >= 0 && stream.host.to_device)) {
      fail("stream '", name, "' has anchor ", stream.anchor, " of the name '", stream.anchored,
           "'.");
    }
    const double elements = static_cast<double>(stream.host.type.elements()) *
                            static_cast<double>(stream.kept()) * program_.replicas;
    if (elements > ir::kMaxElements) {
      fail("stream '", name, "' needs a host buffer of ", elements, " elements.");
    }
  }

  void check_stash(size_t index) const {
    const Stash& stash = program_.stashes[index];
    const bool large = static_cast<double>(stash.type.bytes()) * stash.depth > kMaxBytes;
    if (stash.depth < 1 || large || !is_ipu(stash.ipu)) {
      fail("stash ", index, " of ", stash.type, " has depth ", stash.depth, " on IPU ", stash.ipu,
           " of ", program_.ipus.size(), ".");
    }
  }

  void check_tensor(const Tensor& tensor) const {
    if (!is_ipu(tensor.ipu)) {
      fail("%", tensor.name, " lies on IPU ", tensor.ipu, " of ", program_.ipus.size(), ".");
    }
    if (tensor.offset < 0 || tensor.offset > kMaxBytes ||
        tensor.offset % ir::size_of(tensor.type.dtype) != 0) {
      fail("%", tensor.name, " : ", tensor.type, " has offset ", tensor.offset, ".");
    }
    if (tensor.base == Base::kArena) return;
    const Type* within = base_type(tensor);
    if (!within) fail("%", tensor.name, " names an object that is not declared.");
    if (tensor.offset + tensor.type.bytes() > within->bytes()) {
      fail("%", tensor.name, " : ", tensor.type, " does not fit into ", *within, ".");
    }
    if (tensor.base == Base::kState) {
      const State& state = program_.states[tensor.index];
      if (state.ipu != -1 && state.ipu != tensor.ipu) {
        fail("state '", state.slot.name, "' of IPU ", state.ipu, " is used on IPU ", tensor.ipu,
             ".");
      }
    }
  }

  const Type* base_type(const Tensor& tensor) const {
    const auto index = static_cast<size_t>(tensor.index);  // a negative one becomes too large
    switch (tensor.base) {
      case Base::kState:
        return index < program_.states.size() ? &program_.states[index].slot.type : nullptr;
      case Base::kConstant:
        return index < program_.constants.size() ? &program_.constants[index].type() : nullptr;
      case Base::kStream:
        return index < program_.streams.size() ? &program_.streams[index].host.type : nullptr;
      case Base::kStash:
        return index < program_.stashes.size() ? &program_.stashes[index].type : nullptr;
      case Base::kArena:
        break;
    }
    return nullptr;
  }

  const Program& program_;
  std::set<Symbol> states_, streams_, buffers_;
};

}  // namespace

void verify_declared(const Program& program) { Declared(program).run(); }

}  // namespace poptorch::program
