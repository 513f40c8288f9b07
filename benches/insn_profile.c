/* QEMU TCG plugin: where the guest's instructions go. For each translation block, its address, its number of instructions
 * and how many instructions it has executed so far, in a memory-mapped file: a copy of the file is a snapshot, and
 * insn_profile.py tells what happened between two of them. One virtual CPU only (-smp 1).
 *
 *   gcc -O2 -shared -fPIC -o build/insn_profile.so benches/insn_profile.c
 *   qemu-system-x86_64 -plugin build/insn_profile.so,out=profile ...
 *
 * Plugin API version 1 (QEMU 4.2 to 8.2), declared here: Debian does not package the header. */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
typedef struct {
    const char *target_name;
    struct { int min, cur; } version;
    bool system_emulation;
    union { struct { int smp_vcpus, max_vcpus; } system; };
} qemu_info_t;
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, qemu_plugin_vcpu_tb_trans_cb_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int op, void *ptr, uint64_t imm);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* The file: an open-addressed hash table of blocks. A block may be translated with different lengths. */
#define SLOTS (1u << 18)
static struct slot { uint64_t address, length, executed; } *slots;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    uint64_t address = qemu_plugin_tb_vaddr(block), length = qemu_plugin_tb_n_insns(block);
    uint64_t at = (address * 0x9E3779B97F4A7C15u + length * 0xBF58476D1CE4E5B9u) >> 46;
    (void)id;
    for (unsigned tries = 0; tries < SLOTS; tries++, at = (at + 1) % SLOTS) {
        struct slot *slot = &slots[at];
        if (slot->length == 0)
            *slot = (struct slot){ address, length, 0 };
        if (slot->address == address && slot->length == length) {
            qemu_plugin_register_vcpu_tb_exec_inline(block, 0 /* add */, &slot->executed, length);
            return;
        }
    }
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    const char *path = "insn_profile.out";
    (void)info;
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "out=", 4))
            path = argv[i] + 4;
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, SLOTS * sizeof *slots))
        return -1;
    slots = mmap(NULL, SLOTS * sizeof *slots, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (slots == MAP_FAILED)
        return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
