#include "compile/cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "account/memory_limit.hpp"
#include "compile/pipeline.hpp"
#include "compile/source_lines.hpp"
#include "ir/op_def.hpp"
#include "ir/text.hpp"
#include "ops/custom_registry.hpp"
#include "storage/about.hpp"
#include "storage/container.hpp"
#include "support/build_id.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/file_lock.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::compile {
namespace {

using support::LogLevel;
using support::str;

// Creates a missing folder for this user alone.
void check_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  mkdir(path.c_str(), 0700);
  struct stat about{};
  if (stat(path.c_str(), &about) != 0 || !S_ISDIR(about.st_mode) ||
      access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    throw support::UserError(str("Cache folder ", path, " is not writable. Choose another one in ",
                                 "enableExecutableCaching() or POPTORCH_CACHE_DIR."));
  }
  const bool by_group = (about.st_mode & S_IWGRP) != 0 && about.st_gid != getegid();
  if ((about.st_mode & S_IWOTH) != 0 || by_group) {
    throw support::UserError(
        str("[cache] other users can write to ", path, ", and so could choose what ",
            "runs here. Remove their permission (chmod 700), or choose another folder ",
            "in enableExecutableCaching() or POPTORCH_CACHE_DIR."));
  }
}

bool is_there(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

class Entry {
 public:
  Entry(const ir::Module& module, const HostOptions& options)
      : options_(options),
        registry_(module.registry()),
        key_(cache_key(module, options)),
        path_(str(options.cache_path, "/", key_, ".poptorch")),
        lines_(source_lines(module)) {}

  // Reads the entry if there is a valid one.
  std::optional<Compiled> read() const {
    if (!is_there(path_)) return std::nullopt;
    try {
      const storage::Container file(path_);
      const storage::About about = storage::about_of(file.read("about"), path_);
      if (about.version != support::version())
        throw support::UserError("it belongs to another version.");
      if (about.key != key_) throw support::UserError("it belongs to another model.");
      Compiled forms = parsed(file.read("program"), registry_);
      forms.highest_ipu = about.highest_ipu;
      take_source_lines(forms, about.lines, lines_);
      utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);  // the least recently used are pruned first
      return forms;
    } catch (const support::Error& error) {
      support::log(LogLevel::kWarn,
                   str("The cached executable ", path_, " cannot be used: ", error.what(),
                       " The model is compiled again and the file replaced."));
      return std::nullopt;
    }
  }

  void write(const Compiled& forms) const {
    try {
      storage::ContainerWriter writer(path_, 2);
      writer.begin("about");
      writer.add(storage::json_of({.version = support::version(),
                                   .highest_ipu = forms.highest_ipu,
                                   .key = key_,
                                   .lines = lines_}));
      writer.begin("program");
      writer.add(program::print(forms.program, {.locations = true}));
      writer.commit();
    } catch (const support::UserError& error) {
      support::log(LogLevel::kWarn,
                   str("The executable was not written to the cache: ", error.what()));
    }
  }

  std::string lock_path() const { return str(options_.cache_path, "/", key_, ".lock"); }

 private:
  const HostOptions& options_;
  const ir::Registry& registry_;
  std::string key_, path_;
  SourceLines lines_;
};

// Belongs to the key: a library may be rebuilt with other gradients.
std::string custom_declarations_of(const ir::Module& module) {
  for (const auto& graph : module.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (op->def().provider == "custom") return ops::custom_declarations();
    }
  }
  return "";
}

// Returns whether the user has asked to see the passes' results, so that they must run.
bool is_watched() {
  return !support::environment_names("POPTORCH_DUMP").empty() ||
         support::environment_flag("POPTORCH_REPARSE");
}

}  // namespace

std::string cache_key(const ir::Module& traced, const HostOptions& options) {
  const auto disabled = support::environment_names("POPTORCH_DISABLE_PASSES");
  return storage::hex(
      storage::digest_of(str(support::version(), " ", support::build_id(), " ",
                             options.round_ipu_count, " ", support::join(disabled, ","), "\n",
                             custom_declarations_of(traced), ir::print(traced, {.ids = true}))));
}

Compiled compile_cached(std::unique_ptr<ir::Module> module, const HostOptions& options,
                        const Progress& progress) {
  check_folder(options.cache_path);
  if (is_watched()) return compile_to_program(std::move(module), options, progress);
  const Entry entry(*module, options);
  std::optional<Compiled> found = entry.read();
  if (!found) {
    const support::FileLock lock(entry.lock_path());
    found = entry.read();
    if (!found) {
      const emulator::Share& share = options.share;
      const bool several = share.instances > 1;
      if (several) {
        support::log(LogLevel::kDebug, str("Executable cache file locked by process ",
                                           share.instance, " (pos 1/", share.instances, ")"));
      }
      Compiled made = compile_to_program(std::move(module), options, progress);
      entry.write(made);
      if (several) {
        support::log(LogLevel::kDebug, str("Process ", share.instance, " released the cache lock"));
      }
      return made;
    }
  }
  account::check_memory_limit(found->program, options.early_memory_limit());
  support::log(LogLevel::kDebug, "The executable comes from the cache");
  found->record.cached = true;
  found->execution = module->execution();
  found->traced = std::move(module);
  return std::move(*found);
}

}  // namespace poptorch::compile
