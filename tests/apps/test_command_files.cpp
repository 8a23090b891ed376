// Files that commands read and write: no output of any command overwrites any of its inputs, and
// inputs that are no files are refused at once.
#include <sys/stat.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/identical.hpp"
#include "core/io/matrix_market.hpp"
#include "support/command.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

namespace fs = std::filesystem;

const std::string matrix = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2\n2 2 4\n";
const std::string vector = "%%MatrixMarket matrix array real general\n2 1\n1\n1\n";
const std::string machine = "machine: here\nmatrices: []\n";
const std::string mesh =
    "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n4\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n$EndNodes\n"
    "$Elements\n1\n1 4 0 1 2 3 4\n$EndElements\n";

class CommandFiles : public CommandTest {
 protected:
  CommandFiles() {
    write("m.mtx", matrix), write("b.mtx", vector), write("x0.mtx", vector);
    write("table.yaml", machine), write("other-table.yaml", machine), write("mesh.msh", mesh);
    write("p.yaml",
          "matrix: {file: m.mtx}\nrhs: {file: b.mtx}\ninitial_guess: {file: x0.mtx}\n"
          "schedule: {policy: auto, machine: table.yaml}\n");
    write("amg.yaml", "matrix: {file: m.mtx}\npreconditioner: {type: amg, near_null_space: b.mtx}\n");
    write("body.yaml", "matrix: {file: m.mtx}\npreconditioner: {type: auto, coordinates: x0.mtx}\n");
    write("exact.yaml", "matrix: {file: m.mtx}\nrhs: {solution: {file: b.mtx}}\n");
    write("fem.yaml", "matrix: {generate: {kind: fem-tet, mesh: mesh.msh}}\n");
    write("suite.yaml", "suite: [p.yaml, fem.yaml]\n");
    ::setenv("PROTEAN_MACHINE", "other-table.yaml", 1);
  }
  ~CommandFiles() override { ::unsetenv("PROTEAN_MACHINE"); }

  // One message, exit code 2, and no file is touched.
  void expect_refused(const std::vector<std::string>& arguments, const std::string& part) {
    const auto before = files();
    std::string shown;
    for (const std::string& word : arguments) shown += word + " ";
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << shown << o.err;
    EXPECT_NE(o.err.find(part), std::string::npos) << shown << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_EQ(files(), before) << shown;
  }
};

struct Input {
  const char *file, *name;  // as messages call it
};
constexpr Input inputs_of_p[] = {{"p.yaml", "the problem file"},
                                 {"m.mtx", "matrix.file"},
                                 {"b.mtx", "rhs.file"},
                                 {"x0.mtx", "initial_guess.file"},
                                 {"table.yaml", "schedule.machine"},
                                 {"other-table.yaml", "the machine table of PROTEAN_MACHINE"}};

TEST_F(CommandFiles, NoOutputOfSolveOverwritesAnInput) {
  for (const Input& input : inputs_of_p) {
    expect_refused({"solve", "p.yaml", "--report", input.file}, std::string("overwrite ") + input.name);
    for (const std::string key : {"solution", "report", "history"})
      expect_refused({"solve", "p.yaml", "--set", "output." + key + "=./" + input.file},
                     "output." + key + " would overwrite ");
  }
  expect_refused({"solve", "exact.yaml", "--report", "b.mtx"}, "rhs.solution.file");
  expect_refused({"solve", "amg.yaml", "--report", "b.mtx"}, "preconditioner.near_null_space");
  expect_refused({"solve", "body.yaml", "--report", "x0.mtx"}, "preconditioner.coordinates");
  expect_refused({"solve", "fem.yaml", "--report", "mesh.msh"}, "matrix.generate.mesh");
}

TEST_F(CommandFiles, NoOutputOfCompareOverwritesAnInput) {
  for (const std::string option : {"--report", "--csv", "--html"}) {
    for (const Input& input : inputs_of_p) {
      expect_refused({"compare", "p.yaml", option, input.file}, option + " would overwrite " + input.name);
      expect_refused({"compare", "suite.yaml", option, input.file},
                     option + " would overwrite " + input.name);
    }
    expect_refused({"compare", "suite.yaml", option, "suite.yaml"}, "the suite");
    expect_refused({"compare", "suite.yaml", option, "fem.yaml"}, "the problem file");
    expect_refused({"compare", "suite.yaml", option, "mesh.msh"}, "matrix.generate.mesh");
  }
}

TEST_F(CommandFiles, NoOutputOfGenerateOrConvertOverwritesAnInput) {
  fs::create_symlink("m.mtx", work_ / "link.mtx");
  fs::create_hard_link(work_ / "m.mtx", work_ / "hard.mtx");
  fs::create_symlink("fem.yaml", work_ / "fem.mtx");
  fs::create_symlink("mesh.msh", work_ / "mesh.pbin");
  fs::create_symlink("other-table.yaml", work_ / "table.mtx");
  for (const char* name : {"m.mtx", "./m.mtx", "link.mtx", "hard.mtx"})
    expect_refused({"convert", "m.mtx", name}, "would overwrite the matrix");
  expect_refused({"generate", "fem.yaml", "-o", "fem.mtx"}, "would overwrite the problem file");
  expect_refused({"generate", "fem.yaml", "-o", "mesh.pbin"}, "would overwrite matrix.generate.mesh");
  expect_refused({"generate", "fem.yaml", "-o", "table.mtx"}, "PROTEAN_MACHINE");
}

TEST_F(CommandFiles, TwoOutputsAreTwoFiles) {
  const std::string keys[] = {"solution", "report", "history"};
  for (const std::string& one : keys)
    for (const std::string& two : keys)
      if (one != two)
        expect_refused(
            {"solve", "p.yaml", "--set", "output." + one + "=o", "--set", "output." + two + "=./o"},
            "are the same file");
  EXPECT_EQ(
      run({"solve", "exact.yaml", "--quiet", "--report", "/dev/null", "--set", "output.history=/dev/null"})
          .code,
      0);
}

TEST_F(CommandFiles, LinksToNothingAndReadOnlyFilesAreNotReplaced) {
  fs::create_symlink("nothing", work_ / "link.mtx");
  write("kept.mtx", "kept");
  fs::permissions(work_ / "kept.mtx", fs::perms::owner_read);
  for (const auto& [name, why] : {std::pair("link.mtx", "'nothing'"), std::pair("kept.mtx", "read-only")}) {
    expect_refused({"solve", "exact.yaml", "--set", std::string("output.solution=") + name}, why);
    expect_refused({"solve", "exact.yaml", "--report", name}, why);
    expect_refused({"compare", "exact.yaml", "--html", name}, why);
    expect_refused({"convert", "m.mtx", name}, why);
    expect_refused({"generate", "fem.yaml", "-o", name}, why);
  }
  expect_refused({"tune", "-o", "link.mtx", "--budget", "1"}, "'nothing'");
  EXPECT_TRUE(fs::is_symlink(work_ / "link.mtx"));
}

TEST_F(CommandFiles, InputsThatAreNoFilesAreRefusedAtOnce) {
  ASSERT_EQ(mkfifo((work_ / "pipe.mtx").c_str(), 0600), 0);
  fs::create_directory(work_ / "folder.mtx");
  const std::pair<std::string, const char*> kinds[] = {
      {"pipe.mtx", "named pipe"}, {"/dev/zero", "device"}, {"folder.mtx", "folder"}};
  for (const auto& [path, why] : kinds) {
    for (const char* key : {"matrix.file", "rhs.file", "initial_guess.file", "schedule.machine"})
      for (const char* command : {"solve", "compare", "inspect"})
        expect_refused({command, "p.yaml", "--set", key + ("=" + path)}, why);
    expect_refused({"solve", "exact.yaml", "--set", "rhs.solution.file=" + path}, why);
    expect_refused({"solve", "amg.yaml", "--set", "preconditioner.near_null_space=" + path}, why);
    expect_refused({"solve", "body.yaml", "--set", "preconditioner.coordinates=" + path}, why);
    for (const char* command : {"solve", "compare", "inspect"})
      expect_refused({command, "fem.yaml", "--set", "matrix.generate.mesh=" + path}, why);
    for (const char* command : {"solve", "compare", "inspect"}) expect_refused({command, path}, why);
    expect_refused({"generate", path, "-o", "g.mtx"}, why);
    expect_refused({"convert", path, "g.mtx"}, why);
    ::setenv("PROTEAN_MACHINE", path.c_str(), 1);
    for (const char* command : {"solve", "compare", "inspect"}) expect_refused({command, "exact.yaml"}, why);
    ::setenv("PROTEAN_MACHINE", "other-table.yaml", 1);
  }
  expect_refused({"solve", "exact.yaml", "--report", "pipe.mtx"}, "named pipe");
}

TEST_F(CommandFiles, PipesOfTheShellAreReadAndWritten) {
  const auto shell = [&](const std::string& line) {
    const std::string script = "cd " + work_.string() + " && P=" + PROTEAN_COMMAND + " && " + line;
    return std::system(("bash -c '" + script + "'").c_str());
  };
  EXPECT_EQ(shell("$P convert <(cat m.mtx) a.pbin --quiet"), 0);
  EXPECT_EQ(shell("$P inspect <(gzip -c m.mtx) --json > inspect.json"), 0);
  EXPECT_EQ(shell("cat exact.yaml | $P solve /dev/stdin --quiet --set matrix.file=$PWD/m.mtx "
                  "--set rhs=solution --set rhs.solution=ones --report /dev/stdout | cat > r.json"),
            0);
  EXPECT_NE(slurp(work_ / "r.json").find("\"converged\""), std::string::npos);
  EXPECT_EQ(shell("cat exact.yaml | $P compare /dev/stdin --quiet --formats csr --set matrix.file=$PWD/m.mtx "
                  "--set rhs.solution=ones --csv >(cat > c.csv) && "
                  "for i in {1..600}; do [ -s c.csv ] && break; sleep 0.1; done"),
            0);
  EXPECT_TRUE(
      identical(read_matrix(test_context(), work_ / "a.pbin"), read_matrix(test_context(), work_ / "m.mtx")));
  EXPECT_EQ(slurp(work_ / "c.csv").rfind("problem,format,kernel", 0), 0u) << slurp(work_ / "c.csv");
}

TEST_F(CommandFiles, AMatrixInAPipeIsKnownByItsFirstBytes) {
  for (const char* copy : {"m.mtx.gz", "m.mtx.xz", "m.pbin"})
    ASSERT_EQ(run({"convert", "m.mtx", copy}).code, 0);
  const auto shell = [&](const std::string& line) {
    const std::string script =
        "cd " + work_.string() + " && P=" + PROTEAN_COMMAND + " && " + line + " > out 2> err";
    const int status = std::system(("bash -c '" + script + "'").c_str());
    return Outcome{WEXITSTATUS(status), slurp(work_ / "out"), slurp(work_ / "err")};
  };
  for (const std::string line :
       {"cat m.mtx | $P solve /dev/stdin --json", "cat m.mtx | $P solve - --json",
        "cat m.mtx.gz | $P solve - --json", "cat m.mtx.xz | $P solve - --json",
        "$P solve <(cat m.mtx) --json", "$P solve - --json < m.mtx", "$P solve - --json < m.pbin",
        "(printf %%%%; sleep 0.1; tail -c +3 m.mtx) | $P solve - --json",
        "sed s/%%MatrixMarket/%%matrixmarket/ m.mtx | $P solve - --json"}) {
    const Outcome o = shell(line);
    ASSERT_EQ(o.code, 0) << line << o.err;
    const auto report = nlohmann::json::parse(o.out);
    EXPECT_EQ(report["status"], "converged") << line;
    EXPECT_GT(report["matrix"]["rows"], 1) << line;
  }
  // YAML is read as before, and its files begin at the working folder.
  write("here.yaml", "matrix: {file: m.mtx}\n");
  EXPECT_EQ(shell("cat here.yaml | $P solve -").code, 0);
  EXPECT_EQ(shell("$P solve - < here.yaml").code, 0);
  EXPECT_EQ(shell("cat here.yaml | $P inspect - --json").code, 0);
  EXPECT_EQ(shell("cat m.mtx | $P inspect - --json").code, 0);
  EXPECT_EQ(shell("cat m.mtx | $P compare - --formats csr --quiet").code, 0);
  EXPECT_EQ(shell("cat m.mtx | $P convert - n.pbin").code, 0);
  EXPECT_EQ(shell("echo | $P solve - 2>&1").code, 2);
  EXPECT_EQ(shell(": | $P solve -").code, 2);
  // What a pipe cannot be.
  const Outcome pbin = shell("cat m.pbin | $P solve -"), two = shell("cat m.mtx | $P solve - --rhs -");
  EXPECT_EQ(pbin.code, 2);
  EXPECT_NE(pbin.err.find("a .pbin file is mapped into memory, so it must be an ordinary file"),
            std::string::npos)
      << pbin.err;
  EXPECT_EQ(two.code, 2);
  EXPECT_NE(two.err.find("one pipe"), std::string::npos) << two.err;
}

TEST_F(CommandFiles, FilesOfOtherProgramsAreRefusedWithTheCommandThatConvertsThem) {
  const auto expect_advice = [&](const std::string& name, const std::string& content,
                                 const std::string& advice) {
    write(name, content);
    for (const char* command : {"solve", "compare", "inspect"}) expect_refused({command, name}, advice);
    expect_refused({"convert", name, "g.mtx"}, advice);
  };
  const auto mmwrite = [](const std::string& made, const std::string& names) {
    return "scipy.io.mmwrite(sys.argv[2], " + made + ")\" " + names;
  };
  const auto npy = [](const std::string& type, const std::string& shape) {
    return std::string("\x93NUMPY\1\0\x76\0{'descr': '", 21) + type +
           "', 'fortran_order': False, 'shape': " + shape + ", }";
  };
  expect_advice("A.npz", std::string("PK\3\4\0\0rest", 10),
                mmwrite("scipy.sparse.load_npz(sys.argv[1])", "A.npz A.mtx"));
  // The name of the first file of an archive follows 30 bytes, which have its length.
  const std::string local = std::string("PK\3\4") + std::string(22, '\0') + std::string("\5\0\0\0", 4);
  expect_advice("a b.zip", local + "a.mtx", "(its first file is 'a.mtx'): unzip 'a b.zip'");
  expect_advice("b.zip", local + "a.npy", mmwrite("scipy.sparse.load_npz(sys.argv[1])", "b.zip b.mtx"));
  expect_advice("A.npy", npy("<f8", "(2, 2)"),
                mmwrite("scipy.sparse.coo_matrix(numpy.load(sys.argv[1]))", "A.npy A.mtx"));
  expect_advice("v.npy", npy("<f8", "(2,)"), "it may be a right-hand side (--rhs, or rhs.file)");
  expect_advice("c.npy", npy("<c16", "(2, 2)"), "[[A.real, -A.imag], [A.imag, A.real]]");
  expect_advice("o.npy", npy("|O", "()"),
                "allow_pickle=True).item()))\" o.npy o.mtx (unpickling may run code");
  // The command does not write over the file.
  expect_advice("npz.mtx", std::string("PK\3\4\0\0rest", 10), "npz.mtx npz.mtx.mtx");
  expect_advice("it's.mat", "MATLAB 5.0 MAT-file, Platform: GLNXA64",
                mmwrite("scipy.io.loadmat(sys.argv[1])['A']", R"('it'\''s.mat' 'it'\''s.mtx')"));
  expect_advice("A.h5", "\x89HDF\r\n\x1a\n", "is an HDF5 file");
  expect_advice("A.petsc", std::string("\0\x12\x7b\x50\0\0\0\1", 8), "PETSC_VIEWER_ASCII_MATRIXMARKET");
  expect_advice("A.rua", "1A title                            key\n",
                "A.rua:1: the file ends before the numbers of lines");
}

const std::string harwell_boeing =
    "a matrix of two rows                                                    KEY     \n"
    "             4             1             1             1             1\n"
    "RSA                        2             2             3             0\n"
    "(10I6)          (10I6)          (5E15.8)            (5F8.3)             \n"
    "F                          1             0\n"
    "     1     3     4\n     1     2     2\n 4.00000000E+00-1.00000000E+00 4.00000000E+00\n   3.000   "
    "3.000\n";

TEST_F(CommandFiles, HarwellBoeingFilesAreReadByTheirContent) {
  for (const char* name : {"sym.rsa", "sym.txt", "sym"}) {
    write(name, harwell_boeing);
    const Outcome o = run({"solve", name, "--rhs", name, "--preconditioner", "none", "--json"});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(nlohmann::json::parse(o.out)["matrix"]["nonzeros"], 4) << o.out;
    EXPECT_EQ(run({"inspect", name, "--json"}).code, 0);
    // x is (1, 1).
    ASSERT_EQ(run({"solve", name, "--rhs", name, "--solution", "x.mtx", "--quiet"}).code, 0);
    EXPECT_NEAR(read_vector_market(test_context(), (work_ / "x.mtx").string())[0], 1, 1e-7);
  }
  write("p2.yaml", "matrix: {file: sym}\nrhs: {file: sym.rsa}\n");
  EXPECT_EQ(run({"solve", "p2.yaml", "--quiet"}).code, 0);
  ASSERT_EQ(run({"convert", "sym.rsa", "sym.mtx", "--quiet"}).code, 0);
  EXPECT_EQ(slurp(work_ / "sym.mtx"),
            "%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 4\n2 1 -1\n2 2 4\n");
  const std::string piped = "cd " + work_.string() + " && cat sym | " + PROTEAN_COMMAND + " solve - --quiet";
  EXPECT_EQ(std::system(piped.c_str()), 0);
  write("no.rsa", harwell_boeing.substr(0, 80) + "\n  3 1 1 1 0\n" + harwell_boeing.substr(152));
  expect_refused({"solve", "m.mtx", "--rhs", "no.rsa"}, "a matrix without right-hand sides");
}

TEST_F(CommandFiles, TextOfWindowsIsReadOrNamed) {
  const auto wide = [](const std::string& text, bool mark) {
    std::string result = mark ? "\xff\xfe" : "";
    for (const char c : text) result += c, result += '\0';
    return result;
  };
  const std::string mark = "\xef\xbb\xbf", problem = "matrix: {file: m8.mtx}\nrhs: {file: b8.mtx}\n";
  write("m8.mtx", mark + matrix), write("b8.mtx", mark + vector), write("p8.yaml", mark + problem);
  write("m8", mark + matrix);
  EXPECT_EQ(run({"solve", "p8.yaml", "--quiet"}).code, 0);
  EXPECT_EQ(run({"solve", "m8", "--quiet"}).code, 0);
  write("bad.yaml", mark + "matrix: {fil: m.mtx}\n");
  expect_refused({"solve", "bad.yaml"}, "bad.yaml:1:10: unknown key 'fil'");
  write("bad.mtx", mark + "%%MatrixMarkt\n");
  expect_refused({"solve", "bad.mtx"}, "bad.mtx:1:1: a Matrix Market file begins with");
  for (const bool marked : {true, false}) {
    const std::string code = marked ? "UTF-16" : "UTF-16LE";
    write("m.16", wide(matrix, marked)), write("b16.mtx", wide(vector, marked)),
        write("p16.yaml", wide(problem, marked));
    expect_refused({"convert", "m.16", "n.mtx"}, "iconv -f " + code + " -t UTF-8 m.16 > m.utf8.16");
    expect_refused({"solve", "m.16"}, "text in UTF-16");
    expect_refused({"solve", "m.mtx", "--rhs", "b16.mtx"}, "iconv -f " + code + " -t UTF-8 ");
    expect_refused({"solve", "p16.yaml"}, "iconv -f " + code + " -t UTF-8 p16.yaml > p16.utf8.yaml");
  }
}

TEST_F(CommandFiles, TheSameNameWithAnotherEndingIsSuggested) {
  write("steam1.mtx.xz", "x"), write("steam2.mtx", "x"), write("a.mtx.gz", "x"), write("c.npy", "x");
  expect_refused({"solve", "steam1.mtx"}, "there is no file 'steam1.mtx'. Did you mean 'steam1.mtx.xz'?");
  expect_refused({"inspect", "a.mtx"}, "Did you mean 'a.mtx.gz'?");
  expect_refused({"convert", "m.mtx.gz", "n.mtx"}, "Did you mean 'm.mtx'?");
  expect_refused({"convert", "steam1", "n.mtx"}, "Did you mean 'steam1.mtx.xz'?");
  expect_refused({"solve", "p"}, "Did you mean 'p.yaml'?");
  expect_refused({"solve", "m.mtx", "--rhs", "c.mtx"}, "Did you mean 'c.npy'?");
  try {
    (void)read_matrix_market(test_context(), (work_ / "a.mtx").string());
    FAIL();
  } catch (const BadFile& error) {
    EXPECT_NE(std::string(error.what()).find("No such file or directory. Did you mean '"), std::string::npos)
        << error.what();
  }
}

TEST_F(CommandFiles, AHeaderOfTwoBillionRowsIsRefusedAtOnce) {
  write("big.mtx", "%%MatrixMarket matrix coordinate real general\n2147483647 2147483647 1\n1 1 1\n");
  expect_refused({"inspect", "big.mtx"}, "big.mtx:2");
  expect_refused({"solve", "exact.yaml", "--set", "matrix.file=big.mtx"}, "big.mtx:2");
}

// If each key were compared with all keys before it, this would take four minutes; one pass takes a second.
TEST_F(CommandFiles, AProblemFileOfManyKeysIsReadInOnePass) {
  std::string text = "matrix: {file: m.mtx}\nsolver: {";
  for (int i = 0; i < 400'000; ++i) text += "key" + std::to_string(i) + ": 1, ";
  write("many.yaml", text + "}\n");
  const std::string script =
      "ulimit -t 60; cd " + work_.string() + " && " + PROTEAN_COMMAND + " solve many.yaml 2> message";
  EXPECT_EQ(WEXITSTATUS(std::system(("bash -c '" + script + "'").c_str())), 2);
  EXPECT_NE(slurp(work_ / "message").find("unknown key 'key0'"), std::string::npos);
}

}  // namespace
}  // namespace protean::test
