#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A throw-away Slurm cluster on loopback. Needs root and Debian's packages, no systemd, no cgroups,
# and writes nothing outside its folder. Each node is a slurmd of its own with a port of its own;
# its GPUs are device nodes that do nothing.
#
#   slurm_cluster.sh up DIR [NODES=3] [GPUS_PER_NODE=2]   brings one up from nothing
#   slurm_cluster.sh node-up DIR NAME                     starts one slurmd (again)
#   slurm_cluster.sh node-kill DIR NAME                   a power cut: its slurmd and all its jobs
#   slurm_cluster.sh controller-kill|controller-up DIR    slurmctld alone
#   slurm_cluster.sh down DIR                             ends all of it
#
# SLURM_CLUSTER_PORT is the controller's port; the nodes have those after it. With NoInAddrAny the
# daemons bind to what 'localhost' is and to nothing else. Where no interface has an address beyond
# loopback, getaddrinfo refuses even 127.0.0.1: give `lo` another address first.
set -euo pipefail
command=${1:?up, node-up, node-kill, controller-kill, controller-up or down}
folder=$(realpath -m "${2:?directory}")
port=${SLURM_CLUSTER_PORT:-26817}
export SLURM_CONF=$folder/slurm.conf

# Whether PID is alive and the program that was started: a pid file may be stale.
alive() {
  [ -n "${1:-}" ] && grep -qs "^$2" "/proc/$1/comm" && ! grep -qs '^State:.Z' "/proc/$1/status"
}
pid_of() { cat "$folder/pids/$1" 2>/dev/null || true; }
wait_for() { # TWENTIETHS CONDITION
  local i
  for i in $(seq 1 "$1"); do
    if eval "$2"; then return 0; fi
    sleep 0.05
  done
  echo "waited for: $2" >&2
  return 1
}
descendants() {
  local child
  for child in $(cat "/proc/$1"/task/*/children 2>/dev/null); do
    echo "$child"
    descendants "$child"
  done
}
has_variable() { { tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null | grep -qxF "$2"; }
# What runs for jobs of one node, orphans too: Slurm gives each of them SLURMD_NODENAME.
job_processes() {
  local p
  for p in /proc/[0-9]*; do
    p=${p#/proc/}
    has_variable "$p" "SLURMD_NODENAME=$1" && has_variable "$p" "SLURM_CONF=$SLURM_CONF" && echo "$p"
  done
  return 0
}
# The slurmstepds of one node: they belong to init, but hold the node's log open.
step_daemons() {
  local p
  for p in /proc/[0-9]*; do
    [ "$(cat "$p/comm" 2>/dev/null)" = slurmstepd ] || continue
    has_variable "${p#/proc/}" "SLURM_CONF=$SLURM_CONF" || continue
    # shellcheck disable=SC2010
    ls -l "$p/fd" 2>/dev/null | grep -q "$folder/log/slurmd.$1.log" && echo "${p#/proc/}"
  done
  return 0
}
start() { # NAME PROGRAM ARGUMENTS...
  local name=$1
  shift
  setsid "$@" >"$folder/log/$name.out" 2>&1 </dev/null &
  echo $! >"$folder/pids/$name"
}
start_node() {
  mkdir -p "$folder/spool/$1"
  start "slurmd.$1" slurmd -D -N "$1" -f "$SLURM_CONF"
}
start_controller() { start slurmctld slurmctld -D "$@" -f "$SLURM_CONF"; }
answers() { timeout 5 sinfo -h >/dev/null 2>&1; }

up() {
  local nodes=${1:-3} gpus=${2:-2} i
  [ ! -e "$folder/pids" ] || { echo "already there: $folder" >&2; exit 1; }
  umask 022
  mkdir -p "$folder"/{pids,log,spool,state,run,dev}
  (umask 077; dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 status=none)
  start munged munged --foreground --key-file="$folder/munge.key" --socket="$folder/run/munge.sock" \
    --pid-file="$folder/run/munged.pid" --log-file="$folder/log/munged.log" \
    --seed-file="$folder/run/munge.seed"
  # slurmd refuses a plain file; Slurm takes the number from the name's end.
  for i in $(seq 0 $((gpus - 1))); do mknod "$folder/dev/nvidia$i" c 1 3; done
  {
    cat <<CONF
ClusterName=fixture
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/log/jobcomp.txt
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
# What a test wants soon; a site has 30 to 300 s here.
SlurmdTimeout=5
SlurmctldTimeout=10
MessageTimeout=${SLURM_CLUSTER_MESSAGE_TIMEOUT:-3}
TCPTimeout=1
InactiveLimit=0
MinJobAge=300
KillWait=3
ReturnToService=2
JobRequeue=1
MaxArraySize=10001
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PriorityType=priority/basic
CONF
    for i in $(seq 1 "$nodes"); do
      echo "NodeName=gn$i NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=8" \
        "RealMemory=16000 Gres=gpu:h200:$gpus State=UNKNOWN"
    done
    echo "PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10"
    echo "PartitionName=scavenge Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1" \
      "PreemptMode=REQUEUE GraceTime=2"
  } >"$SLURM_CONF"
  echo "NodeName=gn[1-$nodes] Name=gpu Type=h200 File=$folder/dev/nvidia[0-$((gpus - 1))]" \
    >"$folder/gres.conf"
  wait_for 200 "[ -S $folder/run/munge.sock ]"
  start_controller -i
  for i in $(seq 1 "$nodes"); do start_node "gn$i"; done
  wait_for 600 "[ \$(sinfo -h -N -p gpu -t idle -o %N 2>/dev/null | wc -l) = $nodes ]"
}

node_kill() {
  local daemon steps all step
  daemon=$(pid_of "slurmd.$1")
  steps=$(step_daemons "$1")
  all=$steps
  for step in $steps; do all="$all $(descendants "$step")"; done
  all="$all $(job_processes "$1")"
  ! alive "$daemon" slurmd || all="$daemon $all"
  for step in $all; do kill -KILL "$step" 2>/dev/null || true; done
  rm -f "$folder/pids/slurmd.$1"
}

down() {
  local steps="" file node step name pid
  [ -d "$folder/pids" ] || exit 0
  timeout 5 scancel -u root 2>/dev/null || true
  for file in "$folder"/pids/slurmd.*; do
    [ -e "$file" ] || continue
    node=${file##*slurmd.}
    for step in $(step_daemons "$node"); do steps="$steps $step $(descendants "$step")"; done
    steps="$steps $(job_processes "$node")"
  done
  for file in "$folder"/pids/*; do
    name=$(basename "$file")
    pid=$(cat "$file")
    ! alive "$pid" "${name%%.*}" || kill -TERM "$pid" 2>/dev/null || true
  done
  for file in "$folder"/pids/*; do
    name=$(basename "$file")
    pid=$(cat "$file")
    wait_for 60 "! alive $pid ${name%%.*}" 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true
  done
  # Pids are used again: only what is still ours.
  for step in $steps; do
    ! has_variable "$step" "SLURM_CONF=$SLURM_CONF" || kill -KILL "$step" 2>/dev/null || true
  done
  rm -rf "$folder/pids" "$folder/run"
}

case $command in
  up) up "${3:-}" "${4:-}" ;;
  node-up) start_node "${3:?name}" ;;
  node-kill) node_kill "${3:?name}" ;;
  controller-kill)
    pid=$(pid_of slurmctld)
    ! alive "$pid" slurmctld || kill -KILL "$pid"
    ;;
  controller-up)
    start_controller
    wait_for 400 answers
    ;;
  down) down ;;
  *) exit 2 ;;
esac
