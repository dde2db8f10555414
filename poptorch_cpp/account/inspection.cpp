#include "account/inspection.hpp"

#include "account/execution.hpp"
#include "account/instructions.hpp"
#include "account/memory.hpp"
#include "account/modules.hpp"
#include "target/device.hpp"

namespace poptorch::account {

Inspection inspect(const program::Program& program) {
  const target::Device& device = target::find_device(program.device);
  Strings strings;
  Instructions instructions(program, strings);
  Inspection made;
  made.device = {.name = std::string(device.name),
                 .clock_hz = device.clock,
                 .tiles = device.tiles,
                 .bytes_per_ipu = device.sram()};
  made.replicas = program.replicas;
  made.micro_batches_per_run = program.micro_batches_per_run;
  add_memory(program, instructions, strings, made);
  add_execution(program, instructions, made);
  add_modules(program, instructions, strings, made);
  add_crossings(instructions, made);
  made.instructions = instructions.take();
  made.strings = strings.take();
  return made;
}

}  // namespace poptorch::account
