// Implements inspect.hpp.
#include "inspect/inspect.hpp"

#include "inspect/execution.hpp"
#include "inspect/instructions.hpp"
#include "inspect/memory.hpp"
#include "inspect/modules.hpp"
#include "target/device.hpp"

namespace poptorch::inspect {

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

std::vector<FormLines> form_lines(const session::Executable& executable) {
  std::vector<FormLines> forms;
  for (const char* form : {"traced", "normal", "differentiated", "placed", "program", "bound"}) {
    auto lines = executable.op_lines(form);
    std::erase_if(lines, [](const auto& line) { return line.first == 0; });
    if (!lines.empty()) forms.push_back({form, std::move(lines)});
  }
  return forms;
}

}  // namespace poptorch::inspect
