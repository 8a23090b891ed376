// Machine tables that are shared: files with the machine they are of, and the folder in which contributed ones lie.
#pragma once
#include <functional>
#include <string>

#include "apps/machine/machine_file.hpp"

namespace protean::apps {

// This machine and version, today.
TableOrigin origin_here(int threads);

// "Intel(R) Xeon(R) CPU" as the name of a file: "intel-r-xeon-r-cpu".
std::string file_name_of(const std::string& name);

// Writes the table `from` to `to`, with its origin and without matrices of the user's own. Returns a line that says
// what was written. Throws BadFile for a table that does not say where it was measured, or that has no matrix.
std::string export_table(const std::string& from, const std::string& to);

// Takes an exported table as the new table `to` if it is of this processor, and of this GPU if it has one. Returns a
// line that says what it is. Throws BadFile if `from` lacks its origin or a matrix, names a format that this version
// does not have, or is of another machine, and if `to` is there. Files are written whole or not at all.
std::string import_table(const std::string& from, const std::string& to);

// The folder that the environment variable PROTEAN_TABLES names, or share/protean/tables of the installation.
std::string tables_folder();

// The contributed table of this machine: of the files FOLDER/*.yaml whose names begin with file_name_of() the processor
// or the GPU, the first by name that is of that processor; a second one may give the times of the GPU. `gpu` is asked
// only if the folder has tables. Without a table `own` is empty. Throws BadFile for a broken table.
ChosenMachine contributed_table(const std::string& folder, const std::string& processor,
                                const std::function<std::string()>& gpu);

}  // namespace protean::apps
