#include "emulator/bound/verify.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {
namespace {

class DeclarationVerifier {
 public:
  explicit DeclarationVerifier(const Code& code) : code_(code) {}

  void run() const {
    for (size_t i = 0; i < code_.storages.size(); ++i) check(code_.storages[i], str("storage ", i));
    for (const Value& value : code_.values) {
      if (!index_ok(value.storage, code_.storages.size())) {
        refuse("value %", value.name, " has no storage.");
      }
      const Storage& storage = code_.storages[value.storage];
      if (value.is_strided() && value.strides.size() != value.type.shape.size()) {
        refuse("value %", value.name, " has ", value.strides.size(), " strides for ",
               value.type.rank(), " dimensions.");
      }
      if (std::ranges::any_of(value.strides, [](int64_t stride) { return stride < 0; })) {
        refuse("value %", value.name, " has a negative stride.");
      }
      if (value.offset < 0 || value.offset > storage.bytes() - value.extent()) {
        refuse("value %", value.name, " of ", value.extent(), " bytes at ", value.offset,
               " is not within its storage of ", storage.bytes(), " bytes.");
      }
    }
    for (size_t i = 0; i < code_.regions.size(); ++i) {
      const CodeRegion& region = code_.regions[i];
      if (region.parent >= static_cast<int32_t>(i)) refuse("region ", i, " lies in a later one.");
      const int depth = region.parent < 0 ? 0 : code_.regions[region.parent].depth + 1;
      if (region.depth != depth)
        refuse("region ", i, " has depth ", region.depth, ", not ", depth, ".");
    }
    if (code_.ipus.size() != code_.program->ipus.size()) {
      refuse("the code has ", code_.ipus.size(), " IPUs, but the program has ",
             code_.program->ipus.size(), ".");
    }
  }

 private:
  void check(const Storage& storage, const std::string& name) const {
    if (storage.base == Base::kArena) {
      if (!index_ok(storage.ipu, code_.ipus.size())) refuse(name, " is on IPU ", storage.ipu, ".");
      if (storage.offset < 0) refuse(name, " is at ", storage.offset, " of its arena.");
    } else {
      check_slot(storage, name);
    }
    if (storage.held && (storage.base != Base::kArena || storage.kept)) {
      refuse(name, " is held by one kernel, but is kept from run to run.");
    }
    if (storage.resized && !(storage.layout == Layout{})) {
      refuse(name, " is used with several shapes, but its layout is not plain.");
    }
    if (storage.layout.is_panels() && !storage.is_fixed()) {
      refuse(name, " is in panels, but a step writes it.");
    }
    if (storage.copy_of < 0) return;
    if (!index_ok(storage.copy_of, code_.storages.size()))
      refuse(name, " copies a storage that does not exist.");
    const Storage& source = code_.storages[storage.copy_of];
    if (source.base != storage.base || source.index != storage.index) {
      refuse(name, " copies storage ", storage.copy_of, ", another state or constant.");
    }
  }

  void check_slot(const Storage& storage, const std::string& name) const {
    const program::Program& program = *code_.program;
    const bool state = storage.base == Base::kState;
    if (!state && storage.base != Base::kConstant)
      refuse(name, " is neither in an arena nor a state or constant.");
    if (!index_ok(storage.index, state ? program.states.size() : program.constants.size())) {
      refuse(name, " is ", state ? "state " : "constant ", storage.index,
             ", which does not exist.");
    }
    const auto index = static_cast<size_t>(storage.index);
    const ir::Type& type =
        state ? program.states[index].slot.type : program.constants[index].type();
    if (!(type == storage.type)) refuse(name, " is ", storage.type, " for a slot of ", type, ".");
    if (!state && storage.writers > 0) refuse(name, " is a constant that is written.");
  }

  const Code& code_;
};

}  // namespace

void verify_declarations(const Code& code) { DeclarationVerifier(code).run(); }

}  // namespace poptorch::emulator
