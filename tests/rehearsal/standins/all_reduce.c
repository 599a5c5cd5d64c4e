/* Stands in for all_reduce_perf: a real sum over real MPI; each process records how it was called. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

static void record(int rank, int count, char **words) {
    char path[256], folder[4096];
    snprintf(path, sizeof path, "/rehearsal/calls/%020d-%d-all_reduce_perf", rank, (int)getpid());
    FILE *file = fopen(path, "w");
    if (file == NULL) { perror(path); exit(1); }
    for (int at = 1; at < count; at++) fprintf(file, "%s%s", at > 1 ? "\x1f" : "", words[at]);
    fputc('\x1e', file);
    for (char **entry = environ; *entry; entry++) fprintf(file, "%s%s", entry == environ ? "" : "\x1f", *entry);
    fprintf(file, "\x1e%s", getcwd(folder, sizeof folder) ? folder : "");
    fclose(file);
}

int main(int count, char **words) {
    int rank, ranks;
    double mine, sum = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    record(rank, count, words);
    mine = rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("rehearsal: all_reduce_perf\n");
    fflush(stdout);
    MPI_Finalize();
    if (access("/rehearsal/all_reduce_fails", F_OK) == 0) return 3;
    return sum == ranks * (ranks - 1) / 2.0 ? 0 : 1;
}
