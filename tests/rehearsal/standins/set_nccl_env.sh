# What the script of gIB sets, in its manner: no shebang, and it takes unset variables for empty.
export NCCL_NET=gIB
export NCCL_CROSS_NIC=0
export NCCL_NET_GDR_LEVEL=PIX
export NCCL_P2P_NET_CHUNKSIZE=131072
export NCCL_NVLS_CHUNKSIZE=524288
export NCCL_IB_ADAPTIVE_ROUTING=1
export NCCL_IB_QPS_PER_CONNECTION=4
export NCCL_IB_TC=52
export NCCL_IB_FIFO_TC=84
export NCCL_SOCKET_IFNAME=eth9
export NCCL_TUNER_CONFIG_PATH=/usr/local/gib/configs/theirs
